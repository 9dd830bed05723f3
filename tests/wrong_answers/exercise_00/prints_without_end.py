"""Says that it waits, and never looks."""

PART = "pass_right"
SENTENCE = "The function prints without end: a loop in it is never left."


def pass_right(tensor):
    while True:
        print("waiting for the left neighbor " * 100)
