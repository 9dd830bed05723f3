"""Named wrongly."""

PART = "causes"
SENTENCE = "gradients that do not belong together"


def causes():
    return {"A": 6, "B": 4, "C": 8}
