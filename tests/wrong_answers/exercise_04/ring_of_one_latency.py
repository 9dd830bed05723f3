"""The ring as one message."""

PART = "predicted_seconds"
SENTENCE = "The ring waits for one message after another, and each takes the latency anew"


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    lg = ranks.bit_length() - 1
    more = 0 if ranks == 2**lg else 2
    terms = {
        "star": (2 * (ranks - 1), 2 * (ranks - 1)),
        "unchunked-ring": (ranks - 1, ranks - 1),
        "ring": (1, 2 * (ranks - 1) / ranks),
        "recursive-doubling": (lg + more, lg + more),
        "halving-doubling": (2 * lg + more, 2 * (ranks - 1) / ranks + more),
    }
    messages, tensors = terms[algorithm]
    return messages * latency + tensors * tensor_bytes / bandwidth
