"""The last bucket is taken for hidden."""

from itertools import pairwise

PART = "hidden_and_exposed"
SENTENCE = "The last bucket is called hidden."


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    buckets = [span for span in own if span.kind == "communication"]
    last = sum(
        max((span for span in buckets if span.step == step), key=lambda span: span.start).seconds
        for step in {span.step for span in buckets}
    )
    hidden = exposed = 0.0
    for start, end in pairwise(sorted({time for span in own for time in (span.start, span.end)})):
        kinds = {span.kind for span in own if span.start <= start and end <= span.end}
        if "communication" in kinds:
            if "compute" in kinds and "idle" not in kinds:
                hidden += end - start
            else:
                exposed += end - start
    return hidden + last, exposed - last
