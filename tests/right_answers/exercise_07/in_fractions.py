"""Unions of intervals, recursion, and exact fractions."""

from fractions import Fraction


def union(spans):
    covered = []
    for start, end in sorted((span.start, span.end) for span in spans):
        if covered and start <= covered[-1][1]:
            covered[-1][1] = max(covered[-1][1], end)
        else:
            covered.append([start, end])
    return covered


def seconds_of_both(one, other):
    return sum(max(0, min(b, d) - max(a, c)) for a, b in one for c, d in other)


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    under_way, computes, waits = (
        [span for span in own if span.kind == kind] for kind in ("communication", "compute", "idle")
    )
    all_seconds = sum(end - start for start, end in union(under_way))
    without = seconds_of_both(union(under_way), union(waits + computes))
    hidden = without - seconds_of_both(union(under_way), union(waits))
    return hidden, all_seconds - hidden


def bucket_times(buckets, ready, seconds, backward_end):
    def end(number):
        return start(number) + Fraction(seconds[number])

    def start(number):
        complete = max(Fraction(ready[i]) for i in buckets[number])
        return max(complete, end(number - 1)) if number else complete

    numbers = range(len(buckets))
    exposed = max(Fraction(0), end(numbers[-1]) - Fraction(backward_end))
    return [(float(start(number)), float(end(number))) for number in numbers], float(exposed)


def step_seconds(model, network, bucket_mb, micro_batches):
    end = bucket = 0
    count = network.ranks - 1
    for size, ready in zip(reversed(model.gradient_bytes), reversed(model.ready), strict=True):
        bucket += size
        complete = Fraction(ready)
        if bucket >= bucket_mb * 2**20:
            end, bucket = reduced(max(end, complete), bucket, count, network), 0
    if bucket:
        end = reduced(max(end, complete), bucket, count, network)
    return float((micro_batches - 1) * Fraction(model.pass_seconds) + max(end, Fraction(model.pass_seconds)))


def reduced(start, size, count, network):
    chunk = Fraction(8 * size, count + 1) / (Fraction(network.gigabits) * 10**9)
    return start + 2 * count * (Fraction(network.microseconds, 10**6) + chunk)


def best_bucket(model, network, sizes, micro_batches):
    seconds = {step_seconds(model, network, size, micro_batches): size for size in sizes}
    return seconds[min(seconds)], min(seconds)


def mfu_and_hfu(run, data_sheet):
    if not data_sheet.get(run.dtype):
        return None
    flops = 6 * Fraction(run.parameters) + 12 * run.layers * run.heads * run.head_size * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * Fraction(data_sheet[run.dtype]))
    return float(mfu), float(mfu * (3 + Fraction(run.recomputed)) / 3)


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = Fraction(tokens) / Fraction(tokens_per_second) / 3600
    return float(hours * devices * Fraction(exposed_seconds) / Fraction(step_seconds))
