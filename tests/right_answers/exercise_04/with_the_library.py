"""The library's own formulas."""

from course_lib import cost_model


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    return cost_model.traffic(algorithm, elements, ranks, element_bytes).sent[rank]


def busiest_direction(algorithm, ranks, elements, element_bytes):
    return cost_model.traffic(algorithm, elements, ranks, element_bytes).busiest_direction


def predicted_seconds(algorithm, ranks, tensor_bytes, latency, bandwidth):
    return cost_model.all_reduce_seconds(algorithm, tensor_bytes, ranks, latency, bandwidth)


def fit_ring(ranks, sizes, seconds):
    fit = cost_model.fit("ring", sizes, seconds, ranks)
    return fit.latency, fit.bandwidth


def choose(ranks, mebibytes, microseconds, gigabits):
    names = "star", "unchunked-ring", "ring", "recursive-doubling", "halving-doubling"
    arguments = round(mebibytes * 2**20), ranks, microseconds / 10**6, gigabits * 10**9 / 8
    first, second, *_ = sorted((cost_model.all_reduce_seconds(name, *arguments), name) for name in names)
    return first[1], first[0], second[0]
