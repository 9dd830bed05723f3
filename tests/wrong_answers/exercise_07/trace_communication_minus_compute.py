"""What is longer than all computing."""

PART = "hidden_and_exposed"
SENTENCE = "This is communication minus computing"
UNSAID = "Seconds count twice"


def hidden_and_exposed(spans, rank):
    own = [span for span in spans if span.rank == rank]
    communication = sum(span.seconds for span in own if span.kind == "communication")
    compute = sum(span.seconds for span in own if span.kind == "compute")
    return min(communication, compute), max(0.0, communication - compute)
