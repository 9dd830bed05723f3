"""No return."""

PART = "gradients_in_fp32"
SENTENCE = "The function returns None"


def gradients_in_fp32(module, micro_batches, loss_function):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
