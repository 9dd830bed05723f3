"""Sizes from dtypes, and a search by halves."""

from bisect import bisect_right
from dataclasses import replace

import torch

from course_lib import activations, transformer


def parameter_bytes(module):
    storages = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in module.parameters()}
    return sum(storages.values())


def model_state(parameters, recipe):
    half, full = torch.bfloat16.itemsize, torch.float32.itemsize
    weights = full if recipe == "fp32-adam" else half
    gradients = full if "fp32-grads" in recipe else weights
    master = full if recipe.startswith("mixed") else 0
    moment = {"mixed-8bit-adam": torch.uint8.itemsize, "bf16-adam": half}.get(recipe, full)
    moments = 1 if recipe.endswith("momentum") else 2
    return tuple(parameters * size for size in (weights, gradients, master, moments * moment))


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    flops = (tflops * 1e12) / (1 + sparse)
    return memory_mib * 2**20, flops if has_bf16 else None


def needed(config, micro_batch, sequence, recompute="none"):
    return sum(model_state(config.parameters, "mixed-adam")) + activations.model_bytes(
        config, micro_batch, sequence, recompute
    )


def most_layers(model, memory_bytes, micro_batch, sequence):
    config = transformer.CONFIGS[model]

    def bytes_of(layers):
        return needed(replace(config, layers=layers), micro_batch, sequence)

    return bisect_right(range(1, 1000), memory_bytes, key=bytes_of)


def frees_most(model, micro_batch, sequence):
    config = transformer.CONFIGS[model]
    before = needed(config, micro_batch, sequence)
    in_fp32 = model_state(config.parameters, "mixed-adam")[3]
    in_8_bits = model_state(config.parameters, "mixed-8bit-adam")[3]
    choices = [
        (in_fp32 - in_8_bits, "8-bit Adam"),
        (before - needed(config, micro_batch, sequence, "full"), "recomputation"),
        (before - needed(config, 1, sequence), "micro-batch 1"),
    ]
    freed, change = max(choices)
    return change, freed
