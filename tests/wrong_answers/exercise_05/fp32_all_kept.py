"""Keeps the gradients of all micro-batches, and adds them up at the end."""

PART = "gradients_in_fp32"
SENTENCE = "K times the gradients' memory"


def gradients_in_fp32(module, micro_batches, loss_function):
    kept = []
    for inputs, targets in micro_batches:
        module.zero_grad()
        loss_function(module(inputs), targets).backward()
        kept.append([parameter.grad.float().clone() for parameter in module.parameters()])
    return [sum(of_one) / len(micro_batches) for of_one in zip(*kept, strict=True)]
