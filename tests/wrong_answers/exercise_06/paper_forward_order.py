"""From the first layer on."""

PART = "on_paper"
SENTENCE = "What comes first in the forward pass comes last here"


def on_paper():
    first_bucket = ["embedding", "norm.weight", "norm.bias", "hidden.weight"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
