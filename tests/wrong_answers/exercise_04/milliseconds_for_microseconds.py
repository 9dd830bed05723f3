"""ms."""

PART = "choose"
SENTENCE = "The latency is given in µs, and milliseconds are taken."


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
    sheet = mebibytes * 2**20, microseconds * 1e-3, gigabits * 1e9 / 8
    times = {name: predicted_seconds(name, ranks, *sheet) for name in NAMES}
    best, second = sorted(NAMES, key=times.get)[:2]
    return best, times[best], times[second]
