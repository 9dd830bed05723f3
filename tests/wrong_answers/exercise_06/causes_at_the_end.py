"""Named wrongly."""

PART = "causes"
SENTENCE = "then all starts would stand after the last hook"


def causes():
    return {"A": 5, "B": 4, "C": 9}
