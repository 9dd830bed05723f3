"""N = 8."""

PART = "on_paper"
SENTENCE = "the number of micro-batches in place of the ranks"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 7 / 8 * 66_860,
    }
