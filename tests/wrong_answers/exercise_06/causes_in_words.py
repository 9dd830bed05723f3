"""Named wrongly."""

PART = "causes"
SENTENCE = "one of the numbers from 1 to 10 is expected"


def causes():
    return {"A": 'the last bucket', "B": 4, "C": 8}
