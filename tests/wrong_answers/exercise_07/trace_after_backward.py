"""From the end of the backward pass to that of the last bucket."""

PART = "hidden_and_exposed"
SENTENCE = "What is exposed is counted from the end of the backward pass"


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    hidden = exposed = 0.0
    times = sorted({time for span in own for time in (span.start, span.end)})
    for start, end in zip(times, times[1:], strict=False):
        kinds = {span.kind for span in own if span.start <= start and end <= span.end}
        if "communication" in kinds and "compute" in kinds and "idle" not in kinds:
            hidden += end - start
    for step in {span.step for span in own}:
        last = {kind: max(span.end for span in own if (span.step, span.kind) == (step, kind))
                for kind in ("communication", "compute")}  # fmt: skip
        exposed += max(0.0, last["communication"] - last["compute"])
    return hidden, exposed
