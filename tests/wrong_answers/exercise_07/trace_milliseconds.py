"""As the viewer shows them."""

from itertools import pairwise

PART = "hidden_and_exposed"
SENTENCE = "These are milliseconds"


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
    return 1000 * hidden, 1000 * exposed
