"""All-reduces of all ranks."""

PART = "on_paper"
SENTENCE = "it is one, and not one for each of them"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 12,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
