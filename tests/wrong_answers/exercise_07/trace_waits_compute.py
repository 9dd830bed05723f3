"""A layer computes until its span ends."""

from itertools import pairwise

PART = "hidden_and_exposed"
SENTENCE = "A layer in which a hook waits does not compute for so long"


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    hidden = exposed = 0.0
    for start, end in pairwise(sorted({time for span in own for time in (span.start, span.end)})):
        kinds = {span.kind for span in own if span.start <= start and end <= span.end}
        if "communication" in kinds:
            if "compute" in kinds:
                hidden += end - start
            else:
                exposed += end - start
    return hidden, exposed
