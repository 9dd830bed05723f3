"""(N − 1)·S."""

PART = "on_paper"
SENTENCE = "to each of the others"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 3 * 66_860,
    }
