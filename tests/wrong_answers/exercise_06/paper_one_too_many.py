"""The bucket takes one more parameter than it needs."""

PART = "on_paper"
SENTENCE = "before `hidden.weight`"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias", "hidden.weight"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
