"""One event after the other: what begins and ends, and what is then going on."""


def hidden_and_exposed(spans, rank):
    events = []
    for span in spans:
        if span.rank == rank:
            events += [(span.start, 1, span.kind), (span.end, -1, span.kind)]
    going_on = {"compute": 0, "communication": 0, "idle": 0, "optimizer state": 0}
    hidden, exposed, before = 0, 0, None
    for time, change, kind in sorted(events):
        if going_on["communication"]:
            if going_on["compute"] and not going_on["idle"]:
                hidden += time - before
            else:
                exposed += time - before
        going_on[kind] += change
        before = time
    return [hidden, exposed]


def bucket_times(buckets, ready, seconds, backward_end):
    """With what lists can do."""
    times = [[0.0, 0.0]]
    for bucket, duration in zip([[], *buckets] + [], [0] + seconds, strict=True):
        bucket.sort(key=lambda parameter: -ready[parameter])
        start = max([times[-1][1]] + [ready[parameter] for parameter in bucket[:1]])
        times.append([start, start + duration])
    del times[:2]
    last = times[-1][1]
    return times, last - backward_end if last > backward_end else 0


def step_seconds(model, network, bucket_mb, micro_batches):
    n, clock, held = network.ranks, 0.0, 0
    for parameter in range(len(model.gradient_bytes) - 1, -1, -1):
        held += model.gradient_bytes[parameter]
        if held >= bucket_mb * 1024 * 1024 or parameter == 0:
            clock = max(clock, model.ready[parameter])
            clock += 2 * (n - 1) * (network.microseconds / 1_000_000 + held * 8 / n / network.gigabits / 1e9)
            held = 0
    return micro_batches * model.pass_seconds + max(0.0, clock - model.pass_seconds)


def best_bucket(model, network, sizes, micro_batches):
    best, least = None, float("inf")
    sizes.sort()
    for size in sizes:
        seconds = step_seconds(model, network, size, micro_batches)
        if seconds < least:
            best, least = float(size), seconds
    return best, least


def mfu_and_hfu(run, data_sheet):
    for dtype, peak in data_sheet.items():
        if dtype == run.dtype:
            attention = 4 * run.layers * run.heads * run.head_size * run.sequence
            forward = 2 * run.parameters + attention
            achieved = run.tokens_per_second / run.devices / peak
            return 3 * forward * achieved, (3 + run.recomputed) * forward * achieved
    return None


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    tokens_per_step = tokens_per_second * step_seconds
    steps = tokens / tokens_per_step
    return steps * exposed_seconds * devices / 60 / 60
