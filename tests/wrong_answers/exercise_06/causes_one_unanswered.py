"""Named wrongly."""

PART = "causes"
SENTENCE = "put your answer in its place"


def causes():
    return {"A": 5, "B": 4, "C": None}
