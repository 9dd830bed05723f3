"""Part 4: the largest model that fits on a card."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from course_lib import activations, memory
from course_lib.checks import mistakes
from course_lib.checks.mistakes import AsIf
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.hardware import ACCELERATORS
from course_lib.transformer import CONFIGS, TransformerConfig

_SECRET = ("gpt-2-xl", "a100-80gb", 4, 1024)
_SITUATIONS = (
    ("gpt-2-small", "l4", 4, 1024),
    ("gpt-2-medium", "rtx-4090", 8, 512),
    ("gpt-2-large", "a100-80gb", 8, 1024),
    ("gpt-2-xl", "h100-sxm", 16, 512),
    ("qwen2.5-0.5b", "rtx-4090", 2, 2048),
    ("llama-2-7b", "h100-sxm", 1, 4096),
    ("llama-2-70b", "rtx-3060", 1, 512),
    _SECRET,
)
_TO_THE_LAST_BYTE = ("gpt-2-small", 5, 2, 1024)  # model, layers, micro-batch, sequence
ONE_LAYER = (
    "The activations of one layer only are counted. Each layer keeps its own until the backward pass comes "
    "to it, and the logits are kept as well."
)


def _draw(ranks: int) -> list[Case]:
    cases = []
    for situation in _SITUATIONS:
        model, card, micro_batch, sequence = situation
        arguments = (model, ACCELERATORS[card].memory_bytes, micro_batch, sequence)
        title = f"{model} on {card}, micro-batch {micro_batch}, sequence {sequence}"
        cases.append(Case.alone(title, arguments, _most_layers(*arguments), situation == _SECRET))
    return [*cases[:-1], _to_the_last_byte(*_TO_THE_LAST_BYTE), cases[-1]]


def _to_the_last_byte(model: str, layers: int, micro_batch: int, sequence: int) -> Case:
    """What takes all of the memory still fits."""
    memory_bytes = needed(replace(CONFIGS[model], layers=layers), micro_batch, sequence)
    title = f"{model} where not a byte is left over, micro-batch {micro_batch}, sequence {sequence}"
    return Case.alone(title, (model, memory_bytes, micro_batch, sequence), layers)


def needed(config: TransformerConfig, micro_batch: int, sequence: int) -> int:
    """Bytes of model state and activations."""
    return state(config) + activations.model_bytes(config, micro_batch, sequence)


def state(config: TransformerConfig) -> int:
    """Bytes of model state."""
    return memory.model_state(config.parameters).total


def _most_layers(
    model: str, memory_bytes: float, micro_batch: int, sequence: int, *, needed: Callable = needed
) -> int:
    """Adds layer after layer: this assumes nothing about how the bytes grow."""
    layers = 0
    while needed(replace(CONFIGS[model], layers=layers + 1), micro_batch, sequence) <= memory_bytes:
        layers += 1
    return layers


# --- What mistakes look like ---


def _when_needed_is(mistaken: Callable[[TransformerConfig, int, int], int]) -> Callable:
    return lambda *arguments: _most_layers(*arguments, needed=mistaken)


def _paper(config: TransformerConfig, micro_batch: int, sequence: int, recompute: str = "none") -> int:
    return activations.layer_bytes(micro_batch, sequence, config.hidden, config.heads, recompute)


def _no_dropout(config: TransformerConfig, micro_batch: int, sequence: int, recompute: str = "none") -> int:
    return activations.layer_bytes(micro_batch, sequence, config.hidden, config.heads, recompute, False)


def _flat_model(config: TransformerConfig, micro_batch: int, sequence: int, recompute: str = "none") -> int:
    return activations.model_bytes(replace(config, layers=1), micro_batch, sequence, recompute)


# The ways to get the activations of one layer from the library
OF_ONE_LAYER = (_paper, _no_dropout, _flat_model)


def _with(kept: Callable[[TransformerConfig, int, int], int]) -> Callable:
    """The number of layers when these are taken as the activations."""
    return _when_needed_is(lambda config, *batch: state(config) + kept(config, *batch))


def _all_alike(kept: Callable) -> Callable:
    """The activations as so many times those of one layer."""
    return lambda config, *batch: config.layers * kept(config, *batch)


_UNITS = (10**9 / 2**30, 2**30 / 10**9)


def _with_memory(unit: float) -> Callable:
    return lambda model, memory_bytes, *batch: _most_layers(model, memory_bytes * unit, *batch)


def _no_whole_layers(wrong: Compared) -> str | None:
    if type(wrong.played[0].value) is float:
        return "A number of layers is whole, and this is a float: `//` in place of `/` rounds it down."
    return None


MOST_LAYERS = Part(
    "most_layers(model, memory_bytes, micro_batch, sequence)",
    _draw,
    (
        mistakes.nothing_returned,
        mistakes.not_a_number,
        *(AsIf(_with(kept), ONE_LAYER) for kept in OF_ONE_LAYER),
        *(
            AsIf(
                _with(_all_alike(kept)),
                "Layers times `layer_bytes` is not all: it has no logits, and it knows GPT-2's layers only.",
            )
            for kept in (_paper, _no_dropout)
        ),
        AsIf(
            _with(lambda config, *batch: 0),
            "The activations are forgotten: they must fit beside the model state.",
        ),
        AsIf(
            _when_needed_is(lambda config, micro_batch, sequence: needed(config, 1, sequence)),
            "The activations are those of one sequence: a micro-batch of b keeps b times as much.",
        ),
        AsIf(
            _when_needed_is(lambda config, *batch: needed(config, *batch) + 2 * config.parameters),
            "The gradients are taken as fp32: mixed-adam has bf16 gradients, 16 bytes per parameter in all.",
        ),
        AsIf(
            _when_needed_is(lambda config, *batch: needed(config, *batch) - 4 * config.parameters),
            "The master weights are forgotten: mixed-adam takes 16 bytes per parameter, not 12.",
        ),
        *(AsIf(_with_memory(unit), "GiB are taken for GB: compare both in bytes.") for unit in _UNITS),
        AsIf(
            _when_needed_is(lambda config, *batch: needed(config, *batch) + 1),
            "Where all of the memory is taken, to the last byte, the model still fits.",
        ),
        AsIf(
            lambda *arguments: _most_layers(*arguments) + 1,
            "This many layers do not fit any more: the last number that fits is one less.",
            case_by_case=True,
        ),
        AsIf(
            lambda *arguments: _most_layers(*arguments) - 1,
            "One layer more would still fit.",
            case_by_case=True,
        ),
        _no_whole_layers,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
