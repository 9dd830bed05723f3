"""The bucket starts with the next one's first gradient."""

PART = "on_paper"
SENTENCE = "'hidden.weight': Begin with the gradient that comes first"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": "hidden.weight",
        "all_reduces": 3,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
