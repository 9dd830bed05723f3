"""Named wrongly."""

PART = "causes"
SENTENCE = "would stand before the waits"


def causes():
    return {"A": 5, "B": 7, "C": 8}
