"""The middle bucket, too."""

PART = "on_paper"
SENTENCE = "it hides behind them"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["hidden.weight", "norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
