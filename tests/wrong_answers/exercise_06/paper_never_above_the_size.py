"""No bucket is larger than its size."""

PART = "on_paper"
SENTENCE = "if no bucket may become larger than its size"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 4,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
