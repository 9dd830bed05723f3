"""Counts what each message carries, and fits by hand."""


def lengths(elements, ranks):
    return [elements // ranks + (chunk < elements % ranks) for chunk in range(ranks)]


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    messages = []
    for step in range(ranks - 1):
        if algorithm == "ring":
            messages.append(lengths(elements, ranks)[(rank - step - 1) % ranks])
            messages.append(lengths(elements, ranks)[(rank - step) % ranks])
        elif algorithm == "unchunked-ring" or rank == 0 or step == 0:
            messages.append(elements)
    return sum(messages) * element_bytes


def busiest_direction(algorithm, ranks, elements, element_bytes):
    busiest = 0
    for rank in range(ranks):
        busiest = max(busiest, sent_bytes(algorithm, rank, ranks, elements, element_bytes))
    return busiest


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    total = 0.0
    if algorithm in ("star", "unchunked-ring", "ring"):
        steps = ranks - 1 if algorithm == "unchunked-ring" else 2 * (ranks - 1)
        share = 1 / ranks if algorithm == "ring" else 1
        for _ in range(steps):
            total += latency + tensor_bytes * share / bandwidth
        return total
    distance, powers = 1, 0
    while 2 * distance <= ranks:
        if algorithm == "recursive-doubling":
            total += latency + tensor_bytes / bandwidth
        else:
            total += 2 * latency
        distance *= 2
        powers += 1
    if algorithm == "halving-doubling":
        total += 2 * (ranks - 1) * tensor_bytes / ranks / bandwidth
    if distance != ranks:
        total += 2 * (latency + tensor_bytes / bandwidth)
    return total


def fit_ring(ranks, sizes, seconds):
    """Every point counts by its distance relative to its time."""
    messages = 2 * (ranks - 1)
    points = [(size / ranks, time / messages) for size, time in zip(sizes, seconds, strict=True)]
    weights = [1 / time**2 for _, time in points]
    w = sum(weights)
    x = sum(weight * size for weight, (size, _) in zip(weights, points, strict=True)) / w
    y = sum(weight * time for weight, (_, time) in zip(weights, points, strict=True)) / w
    xy = sum(weight * (size - x) * (time - y) for weight, (size, time) in zip(weights, points, strict=True))
    xx = sum(weight * (size - x) ** 2 for weight, (size, _) in zip(weights, points, strict=True))
    slope = xy / xx
    return [y - slope * x, 1 / slope]


def choose(ranks, mebibytes, microseconds, gigabits):
    best = next_best = (float("inf"), None)
    for name in ("halving-doubling", "recursive-doubling", "ring", "star", "unchunked-ring"):
        size, latency, bandwidth = int(mebibytes * 1024 * 1024), microseconds / 1e6, gigabits * 125e6
        timed = predicted_seconds(name, ranks, size, latency, bandwidth), name
        if timed < best:
            best, next_best = timed, best
        elif timed < next_best:
            next_best = timed
    return best[1], best[0], next_best[0]
