"""Part 4: the configuration with the best U that fits the card and stays within the critical batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.checks import given, mistakes
from course_lib.checks.given import Card, Configuration, Trained, as_it_is
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Attempt, Case, Compared, Part
from course_lib.checks.tolerance import near

ARGUMENTS = (given.configurations, given.trained, given.card, as_it_is)

# Activations are those of the course's GPT with fused attention.
_XL = Trained(1_557_611_200, 1024, 2_728_988_672, 369_692_672, 10_289_385_600.0)
_SEVEN = Trained(6_658_596_864, 2048, 9_035_579_392, 982_515_712, 43_172_806_656.0)
_LONG = Trained(6_683_762_688, 8192, 36_142_317_568, 3_930_062_848, 52_987_478_016.0)
_MEDIUM = Trained(354_823_168, 1024, 1_015_353_344, 260_378_624, 2_430_928_896.0)
_EVEN = Trained(2**30, 2048, 2**31, 2**28, 7.2e9)
_A100, _H100 = Card(40_960, 312.0, 624.0), Card(81_559, 989.4, 1978.9)
_GEFORCE, _OLDER = Card(24_564, 165.2, 330.4), Card(24_576, 71.2, 142.4)

_SECRET = "GPT-2 medium on RTX 4090"
# title: name, N, K, b, stage of ZeRO, recompute, seconds of each; model; card; critical batch in tokens
_SITUATIONS: dict[str, tuple[Sequence[tuple], Trained, Card, float]] = {
    "GPT-2 XL on A100 40 GB, all of them fit": (
        (("A", 8, 1, 4, 0, False, 0.333), ("B", 8, 4, 1, 0, False, 0.454), ("C", 8, 8, 2, 1, False, 1.22),
         ("D", 64, 1, 4, 1, False, 0.416), ("E", 8, 8, 2, 0, False, 1.22)), _XL, _A100, 1.2e6),
    "GPT-2 XL on A100 40 GB, large micro-batches": (
        (("A", 8, 2, 8, 0, False, 1.09), ("B", 8, 8, 2, 0, False, 1.22), ("C", 8, 2, 6, 0, False, 0.852),
         ("D", 8, 8, 8, 0, True, 5.62), ("E", 8, 1, 64, 0, False, 4.25)), _XL, _A100, 1.2e6),
    "GPT-2 XL on A100 40 GB, a small critical batch": (
        (("A", 16, 16, 4, 1, False, 4.41), ("B", 64, 1, 12, 1, False, 0.84), ("C", 64, 2, 8, 1, False, 1.09),
         ("D", 64, 1, 16, 1, True, 1.47), ("E", 8, 64, 2, 0, False, 8.8)), _XL, _A100, 8e5),
    "a model of 7B on H100": (
        (("A", 8, 64, 1, 0, False, 11.9), ("B", 64, 4, 2, 2, False, 1.85), ("C", 8, 16, 1, 2, False, 3.23),
         ("D", 4, 16, 5, 1, False, 14.5), ("E", 2, 16, 3, 1, False, 8.7), ("F", 4, 16, 5, 2, False, 14.9),
         ("G", 8, 8, 7, 2, False, 10.1)),
        _SEVEN, _H100, 1.5e6),
    "a model of 1.07B on RTX 3090, at both limits": (
        (("A", 16, 2, 4, 0, False, 5.1), ("B", 16, 4, 4, 0, False, 7.8), ("C", 16, 4, 4, 0, True, 9.9),
         ("D", 16, 8, 4, 1, False, 14.9), ("E", 4, 1, 34, 0, True, 15.1)), _EVEN, _OLDER, 16 * 4 * 4 * 2048),
    "a model of 1.07B on RTX 3090, sharded": (
        (("A", 2, 1, 57, 1, True, 24.9), ("B", 2, 1, 61, 2, True, 26.3), ("C", 2, 1, 66, 3, True, 28.2),
         ("D", 2, 1, 64, 3, True, 28.8), ("E", 2, 1, 7, 2, False, 3.9)), _EVEN, _OLDER, 5e5),
    "a model of 7B on A100 40 GB, without sharding": (
        (("A", 8, 8, 1, 0, False, 4.1), ("B", 64, 4, 2, 0, True, 5.3), ("C", 256, 1, 1, 0, True, 1.4)),
        _SEVEN, _A100, 4e6),
    "a model of 7B on H100, steps that take equally long": (
        (("A", 64, 4, 2, 1, False, 1.85), ("B", 64, 4, 2, 2, False, 1.85), ("C", 64, 2, 4, 3, True, 2.2),
         ("D", 64, 4, 1, 2, False, 1.25)), _SEVEN, _H100, 1.5e6),
    "a model of 7B on H100, with recomputation": (
        (("A", 8, 32, 1, 3, True, 8.18), ("B", 64, 4, 2, 2, False, 2.0), ("C", 8, 16, 1, 2, False, 3.55),
         ("D", 8, 4, 16, 2, True, 13.9), ("E", 8, 16, 1, 1, False, 3.55)), _SEVEN, _H100, 1.2e6),
    "a model of 7B on H100, sequences of 8,192": (
        (("A", 2, 16, 1, 1, False, 12.4), ("B", 4, 16, 1, 1, False, 12.9), ("C", 8, 16, 1, 2, True, 16.6),
         ("D", 8, 1, 1, 3, False, 1.06)), _LONG, _H100, 3e6),
    "GPT-2 medium on RTX 4090, early in training": (
        (("A", 4, 1, 16, 0, False, 1.6), ("B", 64, 1, 4, 1, False, 0.155), ("C", 2, 32, 4, 0, False, 4.6),
         ("D", 8, 8, 16, 0, False, 4.4), ("E", 64, 64, 8, 1, False, 17.1),
         ("F", 128, 128, 8, 1, False, 33.4)),
        _MEDIUM, _GEFORCE, 1e5),
    _SECRET: (
        (("A", 4, 16, 8, 0, False, 4.59), ("B", 4, 64, 4, 0, False, 8.5), ("C", 32, 4, 8, 0, True, 2.21),
         ("D", 128, 32, 4, 1, False, 4.95), ("E", 4, 8, 24, 0, False, 6.4), ("F", 4, 8, 24, 0, True, 8.0),
         ("G", 128, 1, 8, 0, False, 1.27)), _MEDIUM, _GEFORCE, 8.5e5),
}  # fmt: skip


def _draw(_: int) -> list[Case]:
    return [
        _case(title, (rows, tuple(model), tuple(card), critical))
        for title, (rows, model, card, critical) in _SITUATIONS.items()
    ]


def _case(title: str, arguments: tuple) -> Case:
    return Case.alone(title, arguments, Choice()(*arguments), title == _SECRET)


# --- Right, and what mistakes look like ---

_Chosen = tuple[str, float]
_Of = Callable[[Configuration, Trained], float]
# Bytes of each parameter that every rank holds, and that are divided, by the stage of ZeRO.
_STAGES = {0: (16, 0), 1: (4, 12), 2: (2, 14), 3: (0, 16)}


def _by_stage(**changed: tuple[float, float]) -> _Of:
    """Bytes of a rank's weights, gradients and optimizer state, where some stages have other factors."""
    stages = {**_STAGES, **{int(stage[-1]): pair for stage, pair in changed.items()}}

    def compute(each: Configuration, model: Trained) -> float:
        whole, divided = stages[each.zero_stage]
        return (whole + divided / each.ranks) * model.parameters

    return compute


_state = _by_stage()


def _activations(each: Configuration, model: Trained) -> float:
    return each.batch * (model.recomputed_bytes if each.recompute else model.activation_bytes)


def _tokens(each: Configuration, model: Trained) -> float:
    return each.ranks * each.micro_batches * each.batch * model.sequence


def _room(card: Card) -> float:
    return card.mebibytes * 2**20


def _utilization(each: Configuration, model: Trained, card: Card) -> float:
    achieved = _tokens(each, model) / each.seconds * model.flops_per_token
    return achieved / (each.ranks * card.teraflops * 1e12)


def _at_most(needed: float, limit: float) -> bool:
    return needed <= limit


def _below(needed: float, limit: float) -> bool:
    return needed < limit


def _any(needed: float, limit: float) -> bool:
    return True


_Utilization = Callable[[Configuration, Trained, Card], float]
_Is = Callable[[float, float], bool]


@dataclass(frozen=True)
class Choice:
    """How one is chosen; what is not given is right.

    ``by`` is what is to be most, and then, where that is equal, ``then``.
    """

    state: _Of = _state
    activations: _Of = _activations
    room: Callable[[Card], float] = _room
    fits: _Is = _at_most
    tokens: _Of = _tokens
    within: _Is = _at_most
    utilization: _Utilization = _utilization
    by: _Utilization | None = None
    then: Callable[[float, int], float] = lambda memory, place: -memory

    def __call__(self, rows: Sequence[tuple], model: tuple, card: tuple, critical: float) -> _Chosen | None:
        model, card = Trained(*model), Card(*card)
        by = self.by or self.utilization
        best = None
        for place, each in enumerate(Configuration(*row) for row in rows):
            memory = self.state(each, model) + self.activations(each, model)
            fits = self.fits(memory, self.room(card))
            if fits and self.within(self.tokens(each, model), critical):
                order = by(each, model, card), self.then(memory, place)
                if best is None or order > best[0]:
                    best = order, (each.name, self.utilization(each, model, card))
        return best and best[1]


def _whole_bytes(each: Configuration, model: Trained) -> float:
    whole, divided = _STAGES[each.zero_stage]
    return (whole + divided // each.ranks) * model.parameters


def _times(factor: Callable[[Configuration, Trained, Card], float]) -> _Utilization:
    return lambda *facts: factor(*facts) * _utilization(*facts)


def _by(most: _Utilization) -> list[Choice]:
    """The one with most of something else; of several that with the least memory, the first, the last."""
    return [Choice(by=most), *(Choice(by=most, then=then) for then in (_first, _last))]


def _first(memory: float, place: int) -> float:
    return -place


def _last(memory: float, place: int) -> float:
    return place


def _without(name: str) -> _Of:
    return lambda each, model: _tokens(each, model) / getattr(each, name)


def _one_where_there_is_none(wrong: Compared) -> str | None:
    if wrong.case.expected[0] is None:
        return "Here none of them fits the card: None is asked for."
    return None


def _none_where_there_is_one(wrong: Compared) -> str | None:
    if wrong.played[0].value is None:
        return (
            "None is for the case that no configuration is left, and here there is one. (A function without "
            "`return` gives None, too.)"
        )
    return None


def _no_pair(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2:
        return "Two things are expected: the name of the configuration, and its U. Or None, if there is none."
    if value[0] not in [row[0] for row in wrong.case.arguments[0][0]]:
        return "The first of the two is to be the name of one of the configurations."
    return None


def _chosen(wrong: Compared) -> Configuration:
    name = wrong.played[0].value[0]
    return next(Configuration(*row) for row in wrong.case.arguments[0][0] if row[0] == name)


def _breaks_a_limit(wrong: Compared) -> str | None:
    """Named only with its right U: then the choice is what is wrong."""
    _, model, card, critical = wrong.case.arguments[0]
    each, model, card = _chosen(wrong), Trained(*model), Card(*card)
    if not near(wrong.played[0].value[1], _utilization(each, model, card), 1e-9):
        return None
    if _state(each, model) + _activations(each, model) > _room(card):
        return "This configuration does not fit the card: model state and activations of b sequences count."
    if _tokens(each, model) > critical:
        return "The batch of this configuration is above the critical batch: N · K · b sequences of tokens."
    return (
        "This configuration is within both limits. Another one has a better U, or the same with less memory."
    )


def _right_name(wrong: Compared) -> str | None:
    if wrong.played[0].value[0] == wrong.case.expected[0][0]:
        return (
            "The right configuration, with another U: achieved FLOP/s of all ranks over the peak of all "
            "ranks, a share of 1."
        )
    return None


def _in_error(attempt: Attempt) -> str | None:
    text = str(attempt.error)
    if "arg is an empty sequence" in text or "iterable argument is empty" in text:
        return "No configuration is left, and the best one of none is asked for: return None then."
    return mistakes.in_error(attempt)


BEST = Part(
    "best(configurations, model, card, critical_batch)",
    _draw,
    (
        *as_if(
            "Two have the same U, and of those the one that needs less memory is asked for.",
            Choice(then=_first),
            Choice(then=_last),
            Choice(then=lambda memory, place: memory),
        ),
        *as_if(
            "The state is counted as 16P on each rank. ZeRO divides a part of it by N: 12 of the 16 bytes in "
            "stage 1, 14 in stage 2, all of them in stage 3.",
            Choice(state=lambda each, model: 16 * model.parameters),
        ),
        *as_if(
            "What stays on each rank is not divided a second time: 4 + 12/N bytes in stage 1, 2 + 14/N in "
            "stage 2.",
            Choice(state=_by_stage(stage1=(4, 16), stage2=(2, 16))),
        ),
        *as_if(
            "Stage 1 divides master weights and moments, 12 bytes: weights and gradients, 4 bytes, stay.",
            Choice(state=_by_stage(stage1=(2, 14))),
            Choice(state=_by_stage(stage1=(8, 8))),
        ),
        *as_if(
            "The bytes of a parameter are rounded down. A part of one is seldom whole.",
            Choice(state=_whole_bytes),
        ),
        *as_if(
            "All 16 bytes are divided by N, in each stage. Stage 0 divides nothing, stage 1 leaves 4 on each "
            "rank, and stage 2 leaves 2.",
            Choice(state=_by_stage(stage0=(0, 16), stage1=(0, 16), stage2=(0, 16))),
            Choice(state=_by_stage(stage1=(0, 16), stage2=(0, 16))),
        ),
        *as_if(
            "All are counted as if they recomputed: those that don't have `activation_bytes` for a sequence.",
            Choice(activations=lambda each, model: each.batch * model.recomputed_bytes),
        ),
        *as_if(
            "The activations are those of one sequence: a micro-batch has b of them.",
            Choice(activations=lambda each, model: _activations(each, model) / each.batch),
        ),
        *as_if(
            "The activations of all K micro-batches are counted. One after the other goes through the model, "
            "and only one is in memory at a time.",
            Choice(activations=lambda each, model: each.micro_batches * _activations(each, model)),
        ),
        *as_if(
            "Recomputation is left out of the memory: `recomputed_bytes` are what a sequence takes with it.",
            Choice(activations=lambda each, model: each.batch * model.activation_bytes),
        ),
        *as_if(
            "The activations are left out: state alone does not fill a card.",
            Choice(activations=lambda each, model: 0),
        ),
        *as_if(
            "MiB are taken for MB: 1 MiB = 2^20 bytes, and the card has 5% more bytes.",
            Choice(room=lambda card: card.mebibytes * 1e6),
            Choice(room=lambda card: card.mebibytes / 1024 * 1e9),
        ),
        *as_if(
            "What needs exactly as much as there is fits: `<=`, and not `<`.", Choice(fits=_below)
        ),
        *as_if(
            "A batch that is exactly the critical one is within it: `<=`, and not `<`. So it is with the "
            "card's memory.",
            Choice(within=_below),
            Choice(within=_below, fits=_below),
        ),
        *as_if("Nobody asks whether it fits the card.", Choice(fits=_any)),
        *as_if(
            "K is missing in the effective batch: a step has K micro-batches on each rank.",
            Choice(tokens=_without("micro_batches")),
        ),
        *as_if(
            "N is missing in the effective batch: all ranks' micro-batches make one step.",
            Choice(tokens=_without("ranks")),
        ),
        *as_if(
            "b is missing in the effective batch: a micro-batch has b sequences.",
            Choice(tokens=_without("batch")),
        ),
        *as_if(
            "The effective batch is counted in sequences, and the critical batch in tokens.",
            Choice(tokens=lambda each, model: _tokens(each, model) / model.sequence),
        ),
        *as_if("Nobody asks for the critical batch.", Choice(within=_any), Choice(within=_any, fits=_any)),
        *as_if(
            "The sparse peak is taken: training does not reach it.",
            Choice(utilization=_times(lambda each, model, card: card.teraflops / card.sparse_teraflops)),
        ),
        *as_if(
            "The tokens are those of all ranks, and the peak is that of one card: N cards could do N times "
            "as much.",
            Choice(utilization=_times(lambda each, model, card: each.ranks)),
        ),
        *as_if(
            "The ranks count twice: the tokens of one rank over the peak of all.",
            Choice(utilization=_times(lambda each, model, card: 1 / each.ranks)),
        ),
        *as_if(
            "K is missing in the tokens of a step: each rank works on K micro-batches.",
            Choice(utilization=_times(lambda each, model, card: 1 / each.micro_batches)),
            Choice(utilization=_times(lambda each, model, card: 1 / each.micro_batches),
                   tokens=_without("micro_batches")),
        ),
        *as_if(
            "What is computed a second time is counted as achieved. That is HFU, and it brings training no "
            "further: U counts what the model needs.",
            Choice(utilization=_times(lambda each, model, card: 4 / 3 if each.recompute else 1)),
        ),
        *as_if(
            "These are per cent: a share of 1 is asked for.",
            Choice(utilization=_times(lambda each, model, card: 100)),
        ),
        *as_if(
            "Sequences are counted, and FLOPs are those of a token: a sequence has `model.sequence` of them.",
            Choice(utilization=_times(lambda each, model, card: 1 / model.sequence)),
        ),
        *as_if(
            "TFLOP/s are 10^12 FLOP/s.",
            Choice(utilization=_times(lambda each, model, card: 1e12)),
            Choice(utilization=_times(lambda each, model, card: 1e3)),
            Choice(utilization=_times(lambda each, model, card: 1e12 / 2**40)),
        ),
        *as_if(
            "This is FLOP/s or tokens/s: U is that over what the hardware could do.",
            Choice(utilization=_times(lambda each, model, card: each.ranks * card.teraflops * 1e12)),
            Choice(utilization=_times(
                lambda each, model, card: each.ranks * card.teraflops * 1e12 / model.flops_per_token)),
        ),
        *as_if(
            "This is the fastest step. A small batch has one, too: which configuration gets most done with "
            "what its cards could do?",
            *_by(lambda each, model, card: -each.seconds),
        ),
        *as_if(
            "This one has the most tokens/s, which more cards always have: U is what is asked for.",
            *_by(lambda each, model, card: _tokens(each, model) / each.seconds),
        ),
        *as_if(
            "This is the one with the largest batch.", *_by(lambda each, model, card: _tokens(each, model))
        ),
        *as_if(
            "This is the first one within the limits: which of them has the best U?",
            Choice(by=lambda each, model, card: 0, then=_first),
        ),
        *as_if(
            "This is the last one within the limits: which of them has the best U?",
            Choice(by=lambda each, model, card: 0, then=_last),
        ),
        *as_if(
            "This is the one with the least memory: which of them has the best U?",
            Choice(by=lambda each, model, card: 0),
        ),
        *as_if(
            "This is the worst U within the limits.", *_by(lambda *facts: -_utilization(*facts))
        ),
        _none_where_there_is_one,
        _one_where_there_is_none,
        *as_if(
            "The two are swapped: the name comes first.",
            lambda *facts: (chosen := Choice()(*facts)) and chosen[::-1],
        ),
        _no_pair,
        mistakes.not_a_number,
        _right_name,
        _breaks_a_limit,
    ),
    _in_error,
    world_sizes=ONE_PROCESS,
)
