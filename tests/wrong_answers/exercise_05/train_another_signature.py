"""The line with def was changed."""

PART = "train"
SENTENCE = "does not take the arguments that it gets"


def train(module, micro_batches):
    for _ in micro_batches:
        module.zero_grad()
