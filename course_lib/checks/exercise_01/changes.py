"""Part 5: which change frees most."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from course_lib import activations, memory
from course_lib.checks import mistakes
from course_lib.checks.exercise_01.fitting import OF_ONE_LAYER, ONE_LAYER, needed, state
from course_lib.checks.mistakes import AsIf
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.transformer import CONFIGS, TransformerConfig

CHANGES = ("8-bit Adam", "recomputation", "micro-batch 1")
_SECRET = ("gpt-2-large", 4, 1024)
_SITUATIONS = (
    ("gpt-2-xl", 1, 512),
    ("llama-2-7b", 2, 4096),
    ("gpt-2-small", 16, 1024),
    ("llama-3-8b", 1, 1024),
    ("gpt-2-medium", 32, 1024),
    ("mistral-7b-v0.1", 4, 4096),
    ("qwen2.5-0.5b", 16, 2048),
    _SECRET,
)

_Answer = tuple[str, int]


def _draw(ranks: int) -> list[Case]:
    return [
        Case.alone(
            f"{model}, micro-batch {b}, sequence {s}",
            (model, b, s),
            _most(freed(model, b, s)),
            (model, b, s) == _SECRET,
        )
        for model, b, s in _SITUATIONS
    ]


def freed(model: str, micro_batch: int, sequence: int) -> dict[str, int]:
    """Bytes that each change frees."""
    before = needed(CONFIGS[model], micro_batch, sequence)
    return {change: before - left for change, left in _left(model, micro_batch, sequence).items()}


def _left(model: str, micro_batch: int, sequence: int) -> dict[str, int]:
    """Bytes that are needed after each change."""
    config = CONFIGS[model]
    kept = activations.model_bytes(config, micro_batch, sequence)
    recomputed = activations.model_bytes(config, micro_batch, sequence, recompute="full")
    return {
        "8-bit Adam": memory.model_state(config.parameters, "mixed-8bit-adam").total + kept,
        "recomputation": state(config) + recomputed,
        "micro-batch 1": needed(config, 1, sequence),
    }


def _most(freed: Mapping[str, int]) -> _Answer:
    return max(freed.items(), key=lambda change: change[1])


# --- What mistakes look like ---


def _when_freed_by(change: str, mistaken: Callable[[TransformerConfig, int, int], int]) -> Callable:
    """The answer when what one change frees is computed in another way."""

    def compute(model: str, micro_batch: int, sequence: int) -> _Answer:
        wrong = {change: mistaken(CONFIGS[model], micro_batch, sequence)}
        return _most({**freed(model, micro_batch, sequence), **wrong})

    return compute


def _when_kept_is(kept: Callable) -> Callable:
    """The answer when these are taken as the activations."""

    def compute(model: str, *batch: int) -> _Answer:
        config = CONFIGS[model]
        return _most({
            **freed(model, *batch),
            "recomputation": kept(config, *batch) - kept(config, *batch, "full"),
            "micro-batch 1": kept(config, *batch) - kept(config, 1, batch[1]),
        })  # fmt: skip

    return compute


def _what_is_left(*arguments) -> _Answer:
    return min(_left(*arguments).items(), key=lambda change: change[1])


def _another_choice(wrong: Compared) -> str | None:
    """The right number, of a change that frees less."""
    each = freed(*wrong.case.arguments[0])
    if wrong.played[0].value in each.items() and wrong.played[0].value != _most(each):
        return "The change that is named frees that much, but another one frees more."
    return None


def _no_change(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2 or value[0] not in CHANGES:
        return f"Two values are expected: one of {', '.join(map(repr, CHANGES))}; and the bytes it frees."
    return None


FREES_MOST = Part(
    "frees_most(model, micro_batch, sequence)",
    _draw,
    mistakes.in_bytes(
        _no_change,
        AsIf(
            _what_is_left,
            "This is what is still needed after the change. What it frees is the difference.",
        ),
        *(AsIf(_when_kept_is(kept), ONE_LAYER) for kept in OF_ONE_LAYER),
        AsIf(
            _when_freed_by("recomputation", activations.model_bytes),
            "Recomputation does not free all activations: each layer's input stays, and so do the logits.",
        ),
        AsIf(
            _when_freed_by("8-bit Adam", lambda config, *batch: 8 * config.parameters),
            "8-bit Adam still keeps its two numbers for each parameter, one byte each.",
        ),
        AsIf(
            _when_freed_by("micro-batch 1", lambda config, b, s: needed(config, b, s) * (b - 1) // b),
            "A smaller micro-batch leaves the model state as it is: only activations shrink.",
        ),
        _another_choice,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
