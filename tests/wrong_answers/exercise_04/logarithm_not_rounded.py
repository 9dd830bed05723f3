"""log2(12) rounds."""

import math

PART = "predicted_seconds"
SENTENCE = "Where N is no power of two, some ranks have no partner"


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    lg = math.log2(ranks)
    more = 0
    terms = {
        "star": (2 * (ranks - 1), 2 * (ranks - 1)),
        "unchunked-ring": (ranks - 1, ranks - 1),
        "ring": (2 * (ranks - 1), 2 * (ranks - 1) / ranks),
        "recursive-doubling": (lg + more, lg + more),
        "halving-doubling": (2 * lg + more, 2 * (ranks - 1) / ranks + more),
    }
    messages, tensors = terms[algorithm]
    return messages * latency + tensors * tensor_bytes / bandwidth
