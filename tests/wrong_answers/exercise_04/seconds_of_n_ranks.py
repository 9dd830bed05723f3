"""N for N-1."""

PART = "predicted_seconds"
SENTENCE = "There are N - 1 others, and N - 1 steps around the ring, not N."


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    lg = ranks.bit_length() - 1
    more = 0 if ranks == 2**lg else 2
    terms = {
        "star": (2 * ranks, 2 * ranks),
        "unchunked-ring": (ranks, ranks),
        "ring": (2 * ranks, 2),
        "recursive-doubling": (lg + more, lg + more),
        "halving-doubling": (2 * lg + more, 2 * (ranks - 1) / ranks + more),
    }
    messages, tensors = terms[algorithm]
    return messages * latency + tensors * tensor_bytes / bandwidth
