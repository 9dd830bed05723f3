"""A second module in float32."""

import copy

PART = "gradients_in_fp32"
SENTENCE = "The forward pass is not in bfloat16 any more"


def gradients_in_fp32(module, micro_batches, loss_function):
    exact = copy.deepcopy(module).float()
    for inputs, targets in micro_batches:
        (loss_function(exact(inputs.float()), targets) / len(micro_batches)).backward()
    return [parameter.grad for parameter in exact.parameters()]
