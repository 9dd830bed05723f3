"""Summed in bfloat16, as .grad does, and then turned into float32."""

PART = "gradients_in_fp32"
SENTENCE = "made in bfloat16, and turned into float32 too late"


def gradients_in_fp32(module, micro_batches, loss_function):
    for inputs, targets in micro_batches:
        (loss_function(module(inputs), targets) / len(micro_batches)).backward()
    return [parameter.grad.float() for parameter in module.parameters()]
