"""Named wrongly."""

PART = "causes"
SENTENCE = "a dict is expected"


def causes():
    return [5, 4, 8]
