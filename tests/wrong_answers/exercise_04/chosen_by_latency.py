"""Chosen by messages, timed in full."""

PART = "choose"
SENTENCE = "Only the latencies are compared."


NAMES = ["star", "unchunked-ring", "ring", "recursive-doubling", "halving-doubling"]


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    lg = ranks.bit_length() - 1
    more = 0 if ranks == 2**lg else 2
    terms = {
        "star": (2 * (ranks - 1), 2 * (ranks - 1)),
        "unchunked-ring": (ranks - 1, ranks - 1),
        "ring": (2 * (ranks - 1), 2 * (ranks - 1) / ranks),
        "recursive-doubling": (lg + more, lg + more),
        "halving-doubling": (2 * lg + more, 2 * (ranks - 1) / ranks + more),
    }
    messages, tensors = terms[algorithm]
    return messages * latency + tensors * tensor_bytes / bandwidth


def choose(ranks, mebibytes, microseconds, gigabits):
    sheet = mebibytes * 2**20, microseconds * 1e-6, gigabits * 1e9 / 8
    messages = {name: predicted_seconds(name, ranks, 0, 1, 1) for name in NAMES}
    best, second = sorted(NAMES, key=messages.get)[:2]
    return best, predicted_seconds(best, ranks, *sheet), predicted_seconds(second, ranks, *sheet)
