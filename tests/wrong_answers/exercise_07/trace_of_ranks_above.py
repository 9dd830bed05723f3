"""Takes the ranks above for its own."""

from itertools import pairwise

PART = "hidden_and_exposed"
SENTENCE = "Spans of other ranks are counted, too."


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank >= rank]
    hidden = exposed = 0.0
    for start, end in pairwise(sorted({time for span in own for time in (span.start, span.end)})):
        kinds = {span.kind for span in own if span.start <= start and end <= span.end}
        if "communication" in kinds:
            if "compute" in kinds and "idle" not in kinds:
                hidden += end - start
            else:
                exposed += end - start
    return hidden, exposed
