"""Named wrongly."""

PART = "causes"
SENTENCE = "N times too small"


def causes():
    return {"A": 5, "B": 4, "C": 3}
