"""Loops, and a table of bytes."""

from dataclasses import replace

from course_lib.activations import model_bytes
from course_lib.transformer import CONFIGS

#                          weights, gradients, master, optimizer
BYTES = {
    "mixed-adam": (2, 2, 4, 8),
    "fp32-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 4, 8),
    "mixed-8bit-adam": (2, 2, 4, 2),
    "mixed-sgd-momentum": (2, 2, 4, 4),
    "bf16-adam": (2, 2, 0, 4),
}


def parameter_bytes(module):
    seen = set()
    total = 0
    for _, parameter in module.named_parameters(remove_duplicate=False):
        if id(parameter) not in seen:
            seen.add(id(parameter))
            total += parameter.numel() * parameter.element_size()
    return total


def model_state(parameters, recipe):
    pieces = []
    for size in BYTES[recipe]:
        pieces.append(size * parameters)
    return pieces


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    memory_bytes = memory_mib * 1024 * 1024
    if not has_bf16:
        return memory_bytes, None
    if sparse:
        tflops = tflops / 2
    return memory_bytes, tflops * 10**12


def most_layers(model, memory_bytes, micro_batch, sequence):
    layers = 0
    while True:
        config = replace(CONFIGS[model], layers=layers + 1)
        if 16 * config.parameters + model_bytes(config, micro_batch, sequence) > memory_bytes:
            return layers
        layers += 1


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    before = model_bytes(config, micro_batch, sequence)
    best, most = "8-bit Adam", 6 * config.parameters
    if before - model_bytes(config, micro_batch, sequence, recompute="full") > most:
        best, most = "recomputation", before - model_bytes(config, micro_batch, sequence, recompute="full")
    if before - model_bytes(config, 1, sequence) > most:
        best, most = "micro-batch 1", before - model_bytes(config, 1, sequence)
    return best, most
