"""Part 2: model state, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from course_lib import memory
from course_lib.checks import mistakes
from course_lib.checks.mistakes import AsIf
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part

_SECRET = ("mixed-adam", 354_823_168)
_SITUATIONS = (
    ("mixed-adam", 124_439_808),
    ("fp32-adam", 1_557_611_200),
    ("mixed-adam-fp32-grads", 6_738_415_616),
    ("mixed-8bit-adam", 8_030_261_248),
    ("mixed-sgd-momentum", 7_615_616_512),
    ("bf16-adam", 10**16 + 1),  # a float would lose the last one
    _SECRET,
)
_PIECES = ("weights", "gradients", "master", "optimizer")


def _draw(ranks: int) -> list[Case]:
    cases = []
    for recipe, parameters in _SITUATIONS:
        title, arguments = f"{recipe}, {parameters:,} parameters", (parameters, recipe)
        cases.append(Case.alone(title, arguments, _pieces(*arguments), (recipe, parameters) == _SECRET))
    return cases


def _pieces(parameters: int, recipe: str) -> tuple[int, ...]:
    state = memory.model_state(parameters, recipe)
    return tuple(getattr(state, piece) for piece in _PIECES)


# --- What mistakes look like ---

_State = memory.ModelState
_slip = partial(AsIf, case_by_case=True)  # each recipe is a line of a table


def _with(**mistaken: Callable[[int, _State], int]) -> Callable[[int, str], tuple[int, ...]]:
    """The pieces, but those that are named are computed from the parameters and the right state."""

    def compute(parameters: int, recipe: str) -> tuple[int, ...]:
        state = memory.model_state(parameters, recipe)
        right = {piece: getattr(state, piece) for piece in _PIECES}
        wrong = {piece: formula(parameters, state) for piece, formula in mistaken.items()}
        return tuple({**right, **wrong}.values())

    return compute


def _elements(parameters: int, recipe: str) -> tuple[int, ...]:
    weights, gradients, master, _ = (parameters if piece else 0 for piece in _pieces(parameters, recipe))
    return weights, gradients, master, (1 if "sgd" in recipe else 2) * parameters


def _not_four(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != len(_PIECES):
        return (
            "Four numbers are expected, in this order: weights, gradients, master weights, optimizer state."
        )
    return None


MODEL_STATE = Part(
    "model_state(parameters, recipe)",
    _draw,
    mistakes.in_bytes(
        _not_four,
        _slip(
            _with(gradients=lambda parameters, state: 4 * parameters),
            "The gradients are taken as fp32, and this recipe keeps them in bf16: two bytes.",
        ),
        _slip(
            _with(master=lambda parameters, state: 0),
            "The master weights are forgotten: beside the bf16 weights there is a copy of them in fp32.",
        ),
        _slip(
            _with(
                master=lambda parameters, state: 0,
                optimizer=lambda parameters, state: state.master + state.optimizer,
            ),
            "The master weights stand among the optimizer state; here they are a piece of their own.",
        ),
        _slip(
            _with(optimizer=lambda parameters, state: 8 * parameters),
            "The optimizer state is taken as two fp32 numbers for each parameter; this recipe keeps less.",
        ),
        _slip(
            _with(optimizer=lambda parameters, state: state.optimizer // 2),
            "Half of the optimizer state is missing: Adam keeps two numbers for each parameter.",
        ),
        _slip(
            _elements,
            "These are numbers of elements, and bytes are asked for: how many has one element?",
        ),
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
