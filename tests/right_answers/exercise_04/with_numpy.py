"""numpy's numbers, arrays and least squares."""

import numpy as np


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    chunks = np.array([len(chunk) for chunk in np.array_split(np.arange(elements), ranks)])
    if algorithm == "ring":
        return element_bytes * (np.delete(chunks, rank).sum() + np.delete(chunks, (rank + 1) % ranks).sum())
    times = np.where(algorithm == "star" and rank > 0, 1, ranks - 1)
    return np.int64(times * elements * element_bytes)


def busiest_direction(algorithm, ranks, elements, element_bytes):
    return np.max([sent_bytes(algorithm, rank, ranks, elements, element_bytes) for rank in np.arange(ranks)])


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    lg = np.floor(np.log2(ranks))
    more = np.where(2**lg == ranks, 0, 2)
    terms = {
        "star": [2 * (ranks - 1)] * 2,
        "unchunked-ring": [ranks - 1] * 2,
        "ring": [2 * (ranks - 1), 2 * (1 - 1 / ranks)],
        "recursive-doubling": [lg + more] * 2,
        "halving-doubling": [2 * lg + more, 2 * (1 - 1 / ranks) + more],
    }
    return np.dot(terms[algorithm], [latency, tensor_bytes / bandwidth])


def fit_ring(ranks, sizes, seconds):
    """Seconds over what goes through a link, all messages together."""
    tensors, messages = 2 * (ranks - 1) / ranks, 2 * (ranks - 1)
    columns = np.stack([np.full(len(sizes), messages), tensors * np.array(sizes)], axis=1)
    (latency, inverse), *_ = np.linalg.lstsq(columns, np.array(seconds), rcond=None)
    return latency, 1 / inverse


def choose(ranks, mebibytes, microseconds, gigabits):
    names = np.array(["ring", "star", "recursive-doubling", "unchunked-ring", "halving-doubling"])
    sheet = mebibytes * 2**20, microseconds * 1e-6, gigabits * 1e9 / 8
    times = np.array([predicted_seconds(name, ranks, *sheet) for name in names])
    order = np.argsort(times)
    return str(names[order[0]]), times[order[0]], times[order[1]]
