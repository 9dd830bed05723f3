"""log for log2."""

import math

PART = "predicted_seconds"
SENTENCE = "lg is the logarithm to base 2, and this is the natural one"


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    lg = math.log(ranks)
    more = 0 if ranks & (ranks - 1) == 0 else 2
    terms = {
        "star": (2 * (ranks - 1), 2 * (ranks - 1)),
        "unchunked-ring": (ranks - 1, ranks - 1),
        "ring": (2 * (ranks - 1), 2 * (ranks - 1) / ranks),
        "recursive-doubling": (lg + more, lg + more),
        "halving-doubling": (2 * lg + more, 2 * (ranks - 1) / ranks + more),
    }
    messages, tensors = terms[algorithm]
    return messages * latency + tensors * tensor_bytes / bandwidth
