"""Numbers in place of bytes."""

PART = "on_paper"
SENTENCE = "fp32 has four for each"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860 / 4,
    }
