"""Reduce-scatter and all-gather are counted."""

PART = "on_paper"
SENTENCE = "the two halves of one all-reduce"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 6,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
