"""numpy's numbers, tensors told apart by where they lie, and peaks as whole numbers."""

from dataclasses import replace

import numpy as np
import torch

from course_lib import activations, memory
from course_lib.transformer import CONFIGS


def parameter_bytes(module):
    sizes = {}
    for value in module.state_dict(keep_vars=True).values():
        if isinstance(value, torch.nn.Parameter):
            sizes[value.data_ptr()] = np.prod(value.shape) * value.element_size()
    return sum(sizes.values())


def model_state(parameters, recipe):
    table = {
        "mixed-adam": [2, 2, 4, 8],
        "fp32-adam": [4, 4, 0, 8],
        "mixed-adam-fp32-grads": [2, 4, 4, 8],
        "mixed-8bit-adam": [2, 2, 4, 2],
        "mixed-sgd-momentum": [2, 2, 4, 4],
        "bf16-adam": [2, 2, 0, 4],
    }
    return tuple(np.array(table[recipe], dtype=np.int64) * parameters)


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    flops = int(tflops * 10**12) // (2 if sparse else 1)
    return np.int64(memory_mib) << 20, flops if has_bf16 else None


def most_layers(model, memory_bytes, micro_batch, sequence):
    layers = np.arange(1, 200)
    configs = [replace(CONFIGS[model], layers=int(number)) for number in layers]
    needed = [
        memory.model_state(config.parameters).total + activations.model_bytes(config, micro_batch, sequence)
        for config in configs
    ]
    return (np.array(needed) <= memory_bytes).sum()


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    kept = activations.model_bytes(config, micro_batch, sequence)
    freed = np.array(
        [
            6 * config.parameters,
            kept - activations.model_bytes(config, micro_batch, sequence, recompute="full"),
            kept - activations.model_bytes(config, 1, sequence),
        ]
    )
    return ["8-bit Adam", "recomputation", "micro-batch 1"][np.argmax(freed)], freed.max()
