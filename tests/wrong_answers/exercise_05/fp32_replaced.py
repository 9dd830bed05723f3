"""= in place of +=."""

PART = "gradients_in_fp32"
SENTENCE = "the last micro-batch alone, divided by K"


def gradients_in_fp32(module, micro_batches, loss_function):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
        sums = [parameter.grad.float() for parameter in module.parameters()]
        module.zero_grad()
    return sums
