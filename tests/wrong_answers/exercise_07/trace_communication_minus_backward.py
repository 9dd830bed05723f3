"""What is longer than the backward pass."""

PART = "hidden_and_exposed"
SENTENCE = "This is communication minus computing"


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    communication = sum(span.seconds for span in own if span.kind == "communication")
    backward = sum(span.seconds for span in own if span.label.startswith("backward"))
    exposed = max(0.0, communication - backward)
    return communication - exposed, exposed
