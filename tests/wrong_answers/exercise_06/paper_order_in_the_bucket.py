"""As in the table."""

PART = "on_paper"
SENTENCE = "in another order"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["embedding", "norm.weight", "norm.bias"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
