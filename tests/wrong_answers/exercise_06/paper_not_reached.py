"""Closed one parameter too soon."""

PART = "on_paper"
SENTENCE = "a bucket closes when it has *reached* it"


def on_paper():
    first_bucket = ["output.bias", "output.weight"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
