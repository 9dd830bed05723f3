"""Part 3: micro-batches with unequal numbers of tokens, on several ranks: each token counts the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from course_lib.checks import draws, mistakes
from course_lib.checks.exercise_05 import problem, results
from course_lib.checks.exercise_05.errors import in_error
from course_lib.checks.exercise_05.problem import CROSS_ENTROPY, IGNORED, MicroBatch
from course_lib.checks.exercise_05.results import as_if
from course_lib.checks.exercise_05.simulated import Counts, Trained, Way, train
from course_lib.checks.exercise_05.traffic import synchronized_once
from course_lib.checks.part import Case, Compared, Part
from course_lib.checks.values import Tensor

WORLD_SIZES = (1, 2, 3, 4, 5)
_RATE, _SHAPE = 0.5, (4, 2)  # classes, features
_FEW = 3  # ranks


def _draw(ranks: int) -> list[Case]:
    """More ranks take long, so they leave out a case that no mistake fails which others do not fail, too."""
    cases = [
        _case(ranks, "K = 1", 1, range(1, 7), late_rank=ranks - 1),
        _case(ranks, "K = 2", 2, (1, 3)),
        _case(ranks, "K = 3", 3, range(2, 8), dtype="float32"),
        _case(ranks, "K = 3", 3, (0, 5, 2)),
        # 2,049 tokens on each rank: with 1 to 5 ranks float16 rounds their number, and so does bfloat16.
        _case(ranks, "K = 2, long ones", 2, (901, 1148), steps=1, multiples_of=1.0),
        _case(ranks, "K = 4", 4, (0, 1, 6, 3), secret=True),
    ]
    if ranks <= _FEW:
        cases.insert(3, _case(ranks, "K = 2, equally many", 2, (4,)))
    return cases


def _case(
    ranks: int, title: str, accumulated: int, counts: Sequence[int], dtype: str = "float64",
    steps: int = 2, multiples_of: float = 1 / 8, **more,
) -> Case:  # fmt: skip
    """Micro-batches with ``counts`` tokens, in turn or, of a range, drawn; ``multiples_of``: inputs are."""
    seed, features = f"tokens {ranks} {accumulated} {counts}", _SHAPE[1]
    model = problem.draw_model(dtype, _SHAPE, False, seed)
    longest = max(counts) + 2
    arguments = []
    for rank in range(ranks):
        random = draws.random(f"{seed} {rank}")
        inputs = problem.draw(random, dtype, (steps, accumulated, longest, features), multiples_of)
        targets = [
            target
            for number in range(steps * accumulated)
            for target in _targets(random, _count(random, counts, number + rank), longest)
        ]
        shape = (steps, accumulated, longest)
        arguments.append((*model, inputs, Tensor("int64", shape, tuple(targets)), _RATE))
    least, most = min(counts), max(counts)
    tokens = f"{least}" if least == most else f"{least} to {most:,}"
    title = f"{title}, micro-batches of {tokens} tokens, {dtype}"
    expected = _trained(RIGHT)(arguments)
    return results.case(title, arguments, expected, longest, same_on_all_ranks=True, **more)


def _count(random: Random, counts: Sequence[int], number: int) -> int:
    return random.choice(counts) if isinstance(counts, range) else counts[number % len(counts)]


def _targets(random: Random, tokens: int, length: int) -> list[int]:
    """Classes, and IGNORED in between.  One is above 0, so that who counts only those has a gradient too."""
    targets = [IGNORED] * length
    for number, place in enumerate(random.sample(range(length), tokens)):
        targets[place] = random.randrange(1 if number == 0 else 0, _SHAPE[0])
    return targets


def _trained(way: Way | Callable[[int], Way]) -> Callable[[Sequence[tuple]], list[Trained]]:
    """What all ranks have after steps that are made in this way, which may depend on the length."""

    def compute(arguments: Sequence[tuple]) -> list[Trained]:
        _, _, _, inputs, _, rate = arguments[0]
        batches = [problem.cut(problem.micro_batches(of_rank), inputs.shape[1]) for of_rank in arguments]
        chosen = way if isinstance(way, Way) else way(inputs.shape[2])
        return train(chosen, problem.model(arguments[0], CROSS_ENTROPY), rate, batches)

    return compute


def _as_if(sentence: str, *ways: Way | Callable[[int], Way]) -> list[results.AsIf]:
    return as_if(sentence, *map(_trained, ways))


# --- Right, and what mistakes look like ---


def _once(counts: Counts, rank: int) -> float:
    return 1


def _all(counts: Counts) -> int:
    return sum(map(sum, counts))


def _divide(part: int, by: int) -> float:
    return part / by if by else math.nan


def _of_all(counts: Counts, rank: int, k: int) -> float:
    return _divide(counts[rank][k], _all(counts))


def _of_rank(counts: Counts, rank: int, k: int) -> float:
    return counts[rank][k] / sum(counts[rank])


def _at_once(counts: Counts, rank: int, k: int) -> float:
    """A micro-batch's part of the tokens in the micro-batches of all ranks that come at the same time."""
    return _divide(counts[rank][k], sum(of_rank[k] for of_rank in counts)) / len(counts[rank])


def _of_one(place: int) -> Callable[[Counts, int, int], float]:
    """Divided by the tokens of one micro-batch of each rank."""
    return lambda counts, rank, k: _divide(counts[rank][k], sum(of_rank[place] for of_rank in counts))


def _of_largest(counts: Counts, rank: int, k: int) -> float:
    """Divided by the tokens of the largest micro-batch of each rank."""
    return counts[rank][k] / sum(map(max, counts))


def _above_0(micro_batch: MicroBatch) -> int:
    return sum(target > 0 for target in micro_batch.targets)


RIGHT = Way(_of_all, _once)


def _not_a_number(wrong: Compared) -> str | None:
    rows = [gradient for rank in wrong.wrong_ranks for gradient in wrong.got(rank)[0] if gradient is not None]
    if any(number != number for row in rows for number in row.numbers):
        return (
            "Gradients are nan: a micro-batch may have no tokens, and something is divided by how many "
            "there are."
        )
    return None


def _zeros(wrong: Compared) -> str | None:
    rows = [gradient for rank in wrong.wrong_ranks for gradient in wrong.got(rank)[0] if gradient is not None]
    if not any(number for row in rows for number in row.numbers):
        return "All gradients are 0: is something divided as whole numbers, by `//`?"
    return None


_MEAN_OF_MEANS = (
    "This is the mean of the micro-batches' means: a token counts more where there are few of them. Where "
    "all have equally many, it is right."
)

TRAIN_STEP_BY_TOKENS = Part(
    "train_step_by_tokens(module, micro_batches, loss_function, optimizer, all_reduce)",
    _draw,
    (
        results.unreadable,
        results.never_stepped,
        results.no_gradient,
        results.steps_each,
        _not_a_number,
        *_as_if(_MEAN_OF_MEANS, Way()),
        *_as_if(
            "Each rank divides by the number of its own tokens, and then the ranks are averaged: a token "
            "counts more on a rank that has few of them. The mean is over the tokens of all ranks.",
            Way(_of_rank),
        ),
        *_as_if(
            "Each rank divides by the number of its own tokens: the mean is over those of all ranks.",
            Way(_of_rank, _once),
        ),
        *_as_if(
            "This is divided by all tokens, and then by the number of ranks, too: the sum over the ranks "
            "is the mean already.",
            Way(_of_all),
        ),
        *_as_if(
            "This is divided by all tokens, and then by K, too: the sum over the micro-batches is the mean "
            "already.",
            Way(lambda counts, rank, k: _of_all(counts, rank, k) / len(counts[rank]), _once),
        ),
        *_as_if(
            "This is divided by all tokens, and then by K and by the number of ranks, too.",
            Way(lambda counts, rank, k: _of_all(counts, rank, k) / len(counts[rank])),
        ),
        *_as_if(
            "Positions are counted in place of tokens: those whose target is -100 have no loss.",
            lambda length: Way(
                lambda counts, rank, k: counts[rank][k] / (len(counts) * len(counts[rank]) * length), _once
            ),
        ),
        *_as_if(
            "Targets above 0 are counted. But 0 is a token like all others: what does not count is -100.",
            Way(_of_all, _once, count=_above_0),
        ),
        *_as_if(
            "Nothing is weighted, only divided by the number of all tokens. The loss is a mean already, so "
            "it has to count by the number of its tokens.",
            Way(lambda counts, rank, k: 1 / _all(counts), _once),
            Way(lambda counts, rank, k: 1 / _all(counts)),
        ),
        *_as_if(
            "This is a sum over tokens that nobody has divided by their number.",
            Way(lambda counts, rank, k: counts[rank][k], _once),
            Way(lambda counts, rank, k: counts[rank][k]),
        ),
        *_as_if(
            "This is N times too large: the number of tokens is an average over the ranks, and their sum "
            "is what to divide by.",
            Way(lambda counts, rank, k: len(counts) * _of_all(counts, rank, k), _once),
        ),
        *_as_if(
            "This is divided by the tokens of one micro-batch of each rank: a step has K of them.",
            Way(_of_one(-1), _once),
            Way(_of_one(0), _once),
        ),
        *_as_if(
            "Tokens of the largest micro-batch are counted in place of all: only if all had equally many "
            "would it stand for the others.",
            Way(_of_largest, _once),
            Way(lambda counts, rank, k: _of_largest(counts, rank, k) / len(counts[rank]), _once),
        ),
        *_as_if(
            "Tokens are counted over the ranks, and then the K micro-batches are averaged, as if they had "
            "equally many.",
            Way(_at_once, _once),
        ),
        *_as_if(
            "The optimizer steps with each rank's own part of the sum: it has to be summed over the ranks, "
            "in `.grad` itself, and before the step.",
            Way(_of_all, _once, sums=lambda k, micro_batches: False),
            Way(_of_rank, _once, sums=lambda k, micro_batches: False),
        ),
        *_as_if(
            "The first step is right, and each later one also has the gradients of the steps before it in "
            "it: who clears `.grad`?",
            Way(_of_all, _once, zeroes=lambda k, micro_batches: False),
        ),
        *_as_if(
            "A step has the gradient of its last micro-batch alone: `.grad` is cleared while it still "
            "should add up.",
            Way(_of_all, _once, zeroes=lambda k, micro_batches: True),
        ),
        _zeros,
        results.kept_too_much,
        mistakes.ranks_apart,
        results.replicas_apart,
        results.digits_lost,
    ),
    in_error,
    synchronized_once(scalars=2),
    WORLD_SIZES,
    in_words=results.in_words,
)
