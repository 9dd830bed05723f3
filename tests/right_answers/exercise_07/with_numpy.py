"""Masks over moments, arrays and running maxima."""

import numpy as np


def hidden_and_exposed(spans, rank):
    """Whether each moment, a sixty-fourth of a second, is one of communication, and one of computing."""
    own = [span for span in spans if span.rank == rank]
    moments = np.arange(0, max(span.end for span in own), 1 / 64) + 1 / 128

    def covered(kind):
        masks = [(moments > span.start) & (moments < span.end) for span in own if span.kind == kind]
        return np.any(masks, axis=0) if masks else np.zeros(len(moments), dtype=bool)

    under_way, computes = covered("communication"), covered("compute") & ~covered("idle")
    return np.array([(under_way & computes).sum(), (under_way & ~computes).sum()]) / 64


def bucket_times(buckets, ready, seconds, backward_end):
    """A bucket ends at the latest of: an earlier one is complete, and all from it on are sent."""
    complete = np.array([np.max(np.take(ready, bucket)) for bucket in buckets])
    sent = np.concatenate([[0], np.cumsum(seconds)])
    starts = np.maximum.accumulate(complete - sent[:-1]) + sent[:-1]
    times = np.stack([starts, starts + seconds], axis=1)
    return times, np.maximum(times[-1, 1] - backward_end, 0)


def step_seconds(model, network, bucket_mb, micro_batches):
    sizes, ready = np.array(model.gradient_bytes)[::-1], np.array(model.ready)[::-1]
    number = np.zeros(len(sizes), dtype=int)
    for i in range(1, len(sizes)):
        held = sizes[:i][number[:i] == number[i - 1]].sum()
        number[i] = number[i - 1] + (held >= bucket_mb * 2**20)
    loads = np.bincount(number, weights=sizes)
    complete = np.array([ready[number == bucket].max() for bucket in range(len(loads))])
    factor = 2 * (network.ranks - 1)
    seconds = factor * network.microseconds * 1e-6
    seconds = seconds + factor / network.ranks * loads / (network.gigabits * 1.25e8)
    remaining = np.cumsum(seconds[::-1])[::-1]
    return (micro_batches - 1) * model.pass_seconds + np.max(complete + remaining)


def best_bucket(model, network, sizes, micro_batches):
    """A row of a table of floats."""
    table = np.array([[size, step_seconds(model, network, size, micro_batches)] for size in sizes])
    return table[np.argmin(table[:, 1])]


def mfu_and_hfu(run, data_sheet):
    peak = np.float64(data_sheet.get(run.dtype, np.nan))
    attention = np.prod([12.0, run.layers, run.heads, run.head_size, run.sequence])
    mfu = run.tokens_per_second / run.devices * (6 * run.parameters + attention) / peak
    return None if np.isnan(mfu) else (mfu, mfu + mfu * run.recomputed / 3)


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    return np.prod([tokens / tokens_per_second, devices / 3600, exposed_seconds / step_seconds])
