"""Named wrongly."""

PART = "causes"
SENTENCE = "as many starts as there are weights"


def causes():
    return {"A": 5, "B": 4, "C": 10}
