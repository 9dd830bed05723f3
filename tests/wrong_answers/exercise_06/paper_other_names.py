"""Short names."""

PART = "on_paper"
SENTENCE = "copy the names from the table"


def on_paper():
    first_bucket = ["output.bias", "output.weight", "hidden.bias"]
    return {
        "first_bucket": first_bucket,
        "starts_it": first_bucket[-1],
        "all_reduces": 3,
        "cannot_hide": ["bias", "weight", "embedding"],
        "bytes_sent": 2 * 3 / 4 * 66_860,
    }
