"""Hidden are all seconds of computing."""

from itertools import pairwise

PART = "hidden_and_exposed"
SENTENCE = "The exposed seconds are right, and the hidden ones are not"


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
    return sum(span.seconds for span in own if span.kind == "compute"), exposed
