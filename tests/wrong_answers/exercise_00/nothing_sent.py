"""No communication at all: right only where all ranks hold the same."""

PART = "pass_right"
SENTENCE = "Every rank has got its own numbers back: nothing has come from a neighbor."


def pass_right(tensor):
    return tensor.clone()
