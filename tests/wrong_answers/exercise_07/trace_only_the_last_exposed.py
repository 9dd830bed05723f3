"""The hidden ones are right."""

from itertools import pairwise

PART = "hidden_and_exposed"
SENTENCE = "Only the last bucket is counted as exposed."


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    hidden = exposed = 0.0
    for start, end in pairwise(sorted({time for span in own for time in (span.start, span.end)})):
        kinds = {span.kind for span in own if span.start <= start and end <= span.end}
        if "communication" in kinds:
            if "compute" in kinds and "idle" not in kinds:
                hidden += end - start
            else:
                exposed += end - start
    buckets = [span for span in own if span.kind == "communication"]
    lasts = {span.step: span for span in buckets}  # in order of start
    return hidden, sum(span.seconds for span in lasts.values())
