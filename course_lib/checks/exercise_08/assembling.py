"""Part 1: the loop with all its pieces, on several ranks, and the loss curve that comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from course_lib.checks import draws, mistakes, values
from course_lib.checks.exercise_05 import problem, results
from course_lib.checks.exercise_05.problem import CROSS_ENTROPY, IGNORED, MicroBatch, Row
from course_lib.checks.exercise_05.simulated import Counts, Replica, Slower, Trained, Way, norm
from course_lib.checks.exercise_05.traffic import synchronized_once
from course_lib.checks.exercise_08.errors import in_error
from course_lib.checks.exercise_08.schedule import BEFORE, MOST, share
from course_lib.checks.part import Case, Compared, Part
from course_lib.checks.values import Tensor

_RATE, _SHAPE, _MOST_SAMPLES = 0.8, (3, 4), 4  # of the model: classes, features
_UNCLIPPED = 100.0
_FEW = 3  # ranks


def _draw(ranks: int) -> list[Case]:
    """More ranks take long, so they leave out a case whose steps of the schedule are in others, too."""
    cases = [
        _case(ranks, 1, range(1, 4), late_rank=ranks - 1),
        _case(ranks, 2, range(2, 4), samples=(3,)),
        _case(ranks, 3, range(3, 5)),
        _case(ranks, 4, range(5, 7), of_norm=0.4),
        # The first step's gradient has 0.8 of the largest norm, so nothing is clipped.
        _case(ranks, 2, range(1, 3), of_norm=1 / 0.8),
        _case(ranks, 5, range(3, 5), secret=True),
    ]
    if ranks <= _FEW:
        cases.insert(3, _case(ranks, 3, range(4, 7)))
    return cases


def _case(
    ranks: int, accumulated: int, steps: range, samples: Sequence[int] = range(1, _MOST_SAMPLES + 1),
    of_norm: float | None = None, **more,
) -> Case:  # fmt: skip
    """``of_norm``: max_norm, as a part of the norm of the first gradient."""
    seed = f"assemble {ranks} {accumulated} {steps}"
    model = problem.draw_model("float64", _SHAPE, False, seed)
    arguments = []
    for rank in range(ranks):
        random, shape = draws.random(f"{seed} {rank}"), (len(steps), accumulated, max(samples))
        inputs = problem.draw(random, "float64", (*shape, _SHAPE[1]))
        targets = [each for _ in range(len(steps) * accumulated) for each in _targets(random, samples)]
        target = Tensor("int64", shape, tuple(targets))
        arguments.append((*model, inputs, target, _RATE, steps[0], _UNCLIPPED))
    if of_norm:
        (first, *_), _ = _Loop().trained(arguments)[0]
        most = round(of_norm * norm(first), 3)
        arguments = [(*of_rank[:MOST], most) for of_rank in arguments]
    title = _title(accumulated, steps, samples, arguments[0][MOST])
    made = _Loop().run(arguments)
    case = results.case(title, arguments, made.trained, max(samples), same_on_all_ranks=True, **more)
    losses = results.tensor("float64", made.losses[0])
    return replace(case, expected=tuple((*each[:2], (losses, each[2])) for each in case.expected))


def _title(accumulated: int, steps: range, samples: Sequence[int], most: float) -> str:
    each = f"{min(samples)} to {max(samples)}" if len(samples) > 1 else f"{samples[0]}"
    return (
        f"K = {accumulated}, steps {steps[0]} to {steps[-1]}, micro-batches of {each} samples, "
        f"max_norm = {most:g}"
    )


def _targets(random: Random, samples: Sequence[int]) -> list[int]:
    """Classes of a micro-batch; behind them IGNORED, which stands for no sample at all."""
    count = random.choice(samples)
    classes = [random.randrange(_SHAPE[0]) for _ in range(count)]
    return classes + [IGNORED] * (max(samples) - count)


# --- Right, and what mistakes look like ---


class _At(NamedTuple):
    """A step: its number, how many this call has made before, the first one's number, and K."""

    step: int
    made: int
    first: int
    micro_batches: int


_Shares = tuple[float, float]  # of the highest learning rate: for the weight and for the bias


def _right_rate(at: _At) -> float | _Shares:
    return share(at.step)


def _of_all(counts: Counts, rank: int, k: int) -> float:
    return counts[rank][k] / sum(map(sum, counts))


def _of_rank(counts: Counts, rank: int, k: int) -> float:
    return counts[rank][k] / sum(counts[rank])


def _of_round(counts: Counts, rank: int, k: int) -> float:
    """Of the samples in the micro-batches of all ranks that come at the same time."""
    return counts[rank][k] / sum(of_rank[k] for of_rank in counts) / len(counts[rank])


def _of_k(counts: Counts, rank: int, k: int) -> float:
    return 1 / len(counts[rank])


def _one(counts: Counts, rank: int, k: int) -> float:
    return 1


def _by_count(counts: Counts, rank: int, k: int) -> float:
    return counts[rank][k]


def _once(counts: Counts, rank: int) -> float:
    return 1


RIGHT = Way(_of_all, _once)


class _Made(NamedTuple):
    """What all ranks have, and what each returns for losses."""

    trained: list[Trained]
    losses: list[Row]


_Losses = Callable[[list[list[float]], Counts, int], float]  # of all ranks' micro-batches, for one rank


def _mean_loss(losses: list[list[float]], counts: Counts, rank: int) -> float:
    return sum(
        _of_all(counts, other, k) * loss for other, row in enumerate(losses) for k, loss in enumerate(row)
    )


@dataclass(frozen=True)
class _Loop:
    """A way through the steps; what is not given is right.  ``rate``: shares of the highest learning rate."""

    way: Way = RIGHT
    rate: Callable[[_At], float | _Shares] = _right_rate
    loss: _Losses = _mean_loss

    def run(self, arguments: Sequence[tuple]) -> _Made:
        _, _, _, inputs, _, rate, first, most = arguments[0]
        steps, accumulated = inputs.shape[:2]
        model = problem.model(arguments[0], CROSS_ENTROPY)
        replicas = [Replica(model, rate) for _ in arguments]
        batches = [problem.cut(problem.micro_batches(of_rank), accumulated) for of_rank in arguments]
        losses: list[Row] = [[] for _ in arguments]
        for made in range(steps):
            of_ranks = [batch[made] for batch in batches]
            counts = [[each.counted for each in micro_batches] for micro_batches in of_ranks]
            each = [[_loss(replica, micro_batch) for micro_batch in micro_batches]
                    for replica, micro_batches in zip(replicas, of_ranks, strict=True)]  # fmt: skip
            for rank, row in enumerate(losses):
                row.append(self.loss(each, counts, rank))
            at = _At(first + made, made, first, accumulated)
            self._way(at).step(replicas, of_ranks, counts, most)
        return _Made([replica.trained for replica in replicas], losses)

    def _way(self, at: _At) -> Way:
        shares = self.rate(at)
        slower: Slower = (1 / shares[0], 1 / shares[1]) if isinstance(shares, tuple) else 1 / shares
        return replace(self.way, slower=lambda micro_batches, step: slower)

    def trained(self, arguments: Sequence[tuple]) -> list[Trained]:
        return self.run(arguments).trained


def _loss(replica: Replica, micro_batch: MicroBatch) -> float:
    """The mean cross-entropy of a micro-batch's samples."""
    total = sum(
        times * _cross_entropy(replica.model.predicted(replica.weights, inputs), target)
        for (inputs, target), times in micro_batch.different.items()
    )
    return total / micro_batch.counted


def _cross_entropy(outputs: Row, target: int) -> float:
    largest = max(outputs)
    return largest + math.log(sum(math.exp(each - largest) for each in outputs)) - outputs[target]


def _as_if(sentence: str, *loops: _Loop | Way) -> list[results.AsIf]:
    taken = [loop if isinstance(loop, _Loop) else _Loop(loop) for loop in loops]
    return results.as_if(sentence, *(loop.trained for loop in taken))


def _never(k: int, micro_batches: int) -> bool:
    return False


def _always(k: int, micro_batches: int) -> bool:
    return True


def _only_after(place: int) -> Callable[[int, int], bool]:
    """After one micro-batch, counted from the first or from the last one, which is not itself the last."""
    return lambda k, micro_batches: k == place % micro_batches or (micro_batches == 1 and k == 0)


def _late(at: _At) -> float:
    return share(at.step - 1) if at.made else BEFORE


# --- The losses, where the training is right ---


def _losses_of(compared: Compared, rank: int) -> object:
    return compared.got(rank)[2][0]


def _training_is_right(wrong: Compared) -> bool:
    pairs = ((wrong.got(rank)[:2], wrong.expected(rank)[:2]) for rank in range(wrong.ranks))
    return all(values.agree(*pair, wrong.case.tolerance) for pair in pairs)


def _other_losses(wrong: Compared) -> str | None:
    """What is returned is not a number for each step, and the training is right."""
    if not _training_is_right(wrong):
        return None
    steps, micro_batches = wrong.case.arguments[0][problem.INPUTS].shape[:2]
    for rank in wrong.wrong_ranks:
        losses = _losses_of(wrong, rank)
        if losses is None:
            return "The weights are right. The `return` is missing: a list with the loss of each step."
        if not isinstance(losses, Tensor) or losses.shape != (len(losses.numbers),):
            return "The weights are right. A list of numbers is to be returned: the loss of each step."
        if len(losses.numbers) == steps * micro_batches != steps:
            return "The weights are right. There is a loss for each micro-batch: one for each step is asked."
        if len(losses.numbers) != steps:
            return "The weights are right. The list is to have one loss for each step."
    return None


@dataclass(frozen=True)
class _LossesAsIf(mistakes.AsIf):
    """Recognizes losses that come out as ``formula`` says, where the training is right.

    It gets the arguments of all ranks, and gives what each rank then returns.
    """

    def __call__(self, wrong: Compared) -> str | None:
        if not _training_is_right(wrong):
            return None
        made = self.formula(wrong.case.arguments)
        as_made = all(_near(_losses_of(wrong, rank), made[rank], wrong) for rank in wrong.wrong_ranks)
        return self.sentence if as_made and self._differs(made, wrong) else None

    def would_be_wrong_in(self, right: Compared) -> bool:
        """Whether a right case is one that the formula would have got wrong."""
        return self._differs(self.formula(right.case.arguments), right)

    def _differs(self, made: Sequence[Row], compared: Compared) -> bool:
        ranks = range(compared.ranks)
        return not all(_near(compared.expected(rank)[2][0], made[rank], compared) for rank in ranks)


def _near(losses: object, made: Row, compared: Compared) -> bool:
    expected = results.tensor("float64", made)
    return values.agree(losses, expected, 10 * compared.case.tolerance)


def _losses_as_if(sentence: str, *formulas: _Losses) -> list[_LossesAsIf]:
    def returned(formula: _Losses) -> Callable[[Sequence[tuple]], list[Row]]:
        return lambda arguments: _Loop(loss=formula).run(arguments).losses

    return [_LossesAsIf(returned(formula), f"The weights are right. {sentence}") for formula in formulas]


def _own_mean(losses: list[list[float]], counts: Counts, rank: int) -> float:
    return sum(_of_rank(counts, rank, k) * loss for k, loss in enumerate(losses[rank]))


def _own_part(losses: list[list[float]], counts: Counts, rank: int) -> float:
    return sum(_of_all(counts, rank, k) * loss for k, loss in enumerate(losses[rank]))


def _own_mean_of_means(losses: list[list[float]], counts: Counts, rank: int) -> float:
    return sum(losses[rank]) / len(losses[rank])


def _over_ranks(of_rank: _Losses, divides: bool = True) -> _Losses:
    """The mean over ranks of what each has, or the sum."""

    def compute(losses: list[list[float]], counts: Counts, rank: int) -> float:
        total = sum(of_rank(losses, counts, other) for other in range(len(losses)))
        return total / len(losses) if divides else total

    return compute


def _sum_of_rank(losses: list[list[float]], counts: Counts, rank: int) -> float:
    return sum(losses[rank])


def _last_of_rank(losses: list[list[float]], counts: Counts, rank: int) -> float:
    return losses[rank][-1]


def _last_part(losses: list[list[float]], counts: Counts, rank: int) -> float:
    return _of_all(counts, rank, -1) * losses[rank][-1]


def _kept_too_much(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        (*got, (got_losses, kept)), (*expected, (losses, needed)) = wrong.got(rank), wrong.expected(rank)
        same = values.agree((*got, got_losses), (*expected, losses), wrong.case.tolerance)
        if kept > needed and same:
            return (
                "The numbers are right, but activations stay in memory for longer than until their backward "
                "pass is done: a sum of losses that is not detached keeps all graphs."
            )
    return None


def _in_words(wrong: Compared, rank: int) -> tuple[str, str] | None:
    if wrong.is_right_but_apart or results.unreadable(wrong):
        return None
    return results.in_words(wrong, rank, _of_third)


def _of_third(third: tuple) -> str:
    losses, kept = third
    if isinstance(losses, Tensor) and losses.shape == (len(losses.numbers),):
        losses = f"losses {', '.join(f'{loss:.6g}' for loss in losses.numbers[:8])}"
    else:
        losses = f"losses: {values.text(losses)}"
    return f"{losses} ({results.kept(kept)})"


TRAIN = Part(
    "train(module, optimizer, steps, batch_of, learning_rate, all_reduce, max_norm)",
    _draw,
    (
        results.unreadable,
        results.never_stepped,
        results.no_gradient,
        results.steps_each,
        *_as_if(
            "Each loss counts by the number of its samples here, and nobody divides by the number of all.",
            Way(_by_count, _once),
            Way(_by_count),
        ),
        *_as_if(
            "The micro-batches are averaged, and then the ranks, as if they had equally many samples. Each "
            "sample is to count the same, whoever has it: a loss counts by its samples.",
            Way(_of_k),
        ),
        *_as_if(
            "Each rank takes the mean over its own samples, and the ranks are averaged, as if they had "
            "equally many.",
            Way(_of_rank),
        ),
        *_as_if(
            "Each rank divides by the number of its own samples, and the sum over the ranks is N times too "
            "large, more or less: divide by the samples of all ranks.",
            Way(_of_rank, _once),
        ),
        *_as_if(
            "Samples are counted over the ranks, and then the K micro-batches are averaged, as if they had "
            "equally many.",
            Way(_of_round, _once),
        ),
        *_as_if(
            "Nothing is weighted: K micro-batches and N ranks are added up, and nobody divides.",
            Way(_one, _once),
        ),
        *_as_if(
            "The gradient is K times too large, and micro-batches of all sizes count the same: `.grad` adds "
            "up.",
            Way(_one),
        ),
        *_as_if(
            "The micro-batches are averaged as if they had equally many samples, and the ranks are added up: "
            "weight each loss by its samples, over those of all ranks.",
            Way(_of_k, _once),
        ),
        *_as_if(
            "This is divided by all samples, and then by the number of ranks, too: the sum over the ranks is "
            "the mean already.",
            Way(_of_all),
        ),
        *_as_if(
            "This is divided by all samples, and then by K, too: the sum over the micro-batches is the mean "
            "already.",
            Way(lambda counts, rank, k: _of_all(counts, rank, k) / len(counts[rank]), _once),
        ),
        *_as_if(
            "This is divided by all samples, and then by K and by N, too.",
            Way(lambda counts, rank, k: _of_all(counts, rank, k) / len(counts[rank])),
        ),
        *_as_if(
            "Nothing is weighted, only divided by the number of all samples. A loss is a mean already, so it "
            "has to count by the number of its samples.",
            Way(lambda counts, rank, k: 1 / sum(map(sum, counts)), _once),
        ),
        *_as_if(
            "This is N times too large: the number of samples is an average over the ranks, and their sum is "
            "what to divide by.",
            Way(lambda counts, rank, k: len(counts) * _of_all(counts, rank, k), _once),
        ),
        *_as_if(
            "The optimizer steps with each rank's own part of the sum: it has to be summed over the ranks, "
            "in `.grad` itself, and before the step.",
            Way(_of_all, _once, sums=_never),
            Way(_of_rank, _once, sums=_never),
            Way(_of_k, _once, sums=_never),
        ),
        *_as_if(
            "Gradients are summed over the ranks after each micro-batch, and so is what was summed before: "
            "it counts N times more with each of them. Sum once, after the last one.",
            Way(_of_all, _once, sums=_always),
        ),
        *_as_if(
            "The ranks' gradients are summed after the first micro-batch, and what comes after it stays on "
            "its rank.",
            Way(_of_all, _once, sums=_only_after(0)),
        ),
        *_as_if(
            "The ranks' gradients are summed before the last micro-batch is in them: what comes after that "
            "stays on its rank.",
            Way(_of_all, _once, sums=_only_after(-2)),
        ),
        *_as_if(
            "The first step is right, and each later one also has the gradients of the steps before it in "
            "it: who clears `.grad`?",
            Way(_of_all, _once, zeroes=_never),
        ),
        *_as_if(
            "A step has the gradient of its last micro-batch alone: `.grad` is cleared while it still "
            "should add up.",
            Way(_of_all, _once, zeroes=_always),
        ),
        *_as_if(
            "Each rank clips its own part of the gradient, and then they are added up. The norm of all of it "
            "is meant: clip after the sum over the ranks.",
            Way(_of_all, _once, clip="before"),
        ),
        *_as_if(
            "The gradient is clipped in the loop, after each micro-batch. It is to be clipped once, when it "
            "is the mean over all samples of all ranks.",
            Way(_of_all, _once, clip="each micro-batch"),
        ),
        *_as_if(
            "Each parameter's gradient is clipped by itself. `max_norm` is for the norm over all parameters.",
            Way(_of_all, _once, clip="each parameter"),
        ),
        *_as_if(
            "Each element is clipped by itself, as `clip_grad_value_` does. `max_norm` is for the norm over "
            "all elements: they shrink by one factor.",
            Way(_of_all, _once, clip="each element"),
        ),
        *_as_if(
            "The squares of the norm are added up over the ranks. But each rank has the whole gradient, and "
            "not a part of it: its norm is the norm.",
            Way(_of_all, _once, clip="squares of all ranks"),
        ),
        *_as_if(
            "A gradient that is shorter than `max_norm` is made longer: it is to stay as it is.",
            Way(_of_all, _once, clip="always"),
        ),
        *_as_if(
            "Nothing is clipped to `max_norm`, or only when the optimizer has stepped.",
            Way(_of_all, _once, clip="never"),
        ),
        *_as_if(
            "The learning rate is never set: the optimizer still has the one that it came with.",
            _Loop(rate=lambda at: BEFORE),
        ),
        *_as_if(
            "The learning rate is set when the step is done, so that each step has that of the one before. "
            "It belongs before the step.",
            _Loop(rate=_late),
        ),
        *_as_if(
            "Each step has the learning rate of the step before. The first one's number is 1, and not 0.",
            _Loop(rate=lambda at: share(at.step - 1)),
        ),
        *_as_if(
            "Each step has the learning rate of the next one.", _Loop(rate=lambda at: share(at.step + 1))
        ),
        *_as_if(
            "The learning rate's schedule begins anew: the steps of a call are not always those from 1 on. "
            "`steps` has their numbers.",
            _Loop(rate=lambda at: share(at.made + 1)),
            _Loop(rate=lambda at: share(at.made)),
        ),
        *_as_if(
            "The learning rate goes on with each micro-batch, K times as fast as it should. The schedule is "
            "that of the optimizer's steps.",
            _Loop(rate=lambda at: share((at.made + 1) * at.micro_batches)),
            _Loop(rate=lambda at: share(at.made * at.micro_batches + 1)),
            _Loop(rate=lambda at: share(at.step * at.micro_batches)),
            _Loop(rate=lambda at: share((at.step - 1) * at.micro_batches)),
            _Loop(rate=lambda at: share((at.step - 1) * at.micro_batches + 1)),
            _Loop(rate=lambda at: share(at.step + at.micro_batches - 1)),
            _Loop(rate=lambda at: share(at.step + at.micro_batches)),
            _Loop(rate=lambda at: share(at.first + at.made * at.micro_batches)),
            _Loop(rate=lambda at: share(at.first + (at.made + 1) * at.micro_batches - 1)),
            _Loop(rate=lambda at: share((at.first - 1) + (at.made + 1) * at.micro_batches)),
            _Loop(rate=lambda at: share(at.made * at.micro_batches)),
            _Loop(rate=lambda at: share((at.made + 1) * at.micro_batches - 1)),
        ),
        *_as_if(
            "The learning rate is set once, for the first step, and stays so.",
            _Loop(rate=lambda at: share(at.first)),
        ),
        *_as_if(
            "The learning rate is set for one group of parameters. An optimizer may have several: all of "
            "`optimizer.param_groups`.",
            _Loop(rate=lambda at: (share(at.step), BEFORE)),
            _Loop(rate=lambda at: (BEFORE, share(at.step))),
        ),
        *_as_if(
            "The weights are averaged after the step, and not the gradients summed before it. Optimizers "
            "that keep moments, and clipping, need the gradient of all.",
            Way(_of_rank, _once, sums=_never, averages_weights=True),
            Way(_of_k, _once, sums=_never, averages_weights=True),
            Way(_of_all, _once, sums=_never, averages_weights=True),
        ),
        _other_losses,
        *_losses_as_if(
            "But the losses are those of each rank's own samples: those of all ranks belong to the mean.",
            _own_mean,
        ),
        *_losses_as_if(
            "But a loss is this rank's part of the mean over all samples: it has to be summed over the "
            "ranks, too.",
            _own_part,
        ),
        *_losses_as_if(
            "But the loss is a mean of means: micro-batches, or ranks, are averaged as if they had equally "
            "many samples.",
            _own_mean_of_means,
            _over_ranks(_own_mean_of_means),
            _over_ranks(_own_mean),
        ),
        *_losses_as_if(
            "But the loss is that of the last micro-batch: a step has K of them.",
            _last_of_rank,
            _last_part,
            _over_ranks(_last_of_rank),
            _over_ranks(_last_of_rank, divides=False),
            _over_ranks(_last_part, divides=False),
        ),
        *_losses_as_if(
            "But the losses are added up, over micro-batches or over ranks, and nobody divides by their "
            "number.",
            _sum_of_rank,
            _over_ranks(_sum_of_rank),
            _over_ranks(_sum_of_rank, divides=False),
            _over_ranks(_own_mean, divides=False),
            _over_ranks(_own_mean_of_means, divides=False),
        ),
        *_losses_as_if(
            "But the loss is divided by N, too: the sum over the ranks is the mean already.",
            _over_ranks(_own_part),
        ),
        _kept_too_much,
        mistakes.ranks_apart,
        results.replicas_apart,
    ),
    in_error,
    synchronized_once(scalars=3),
    (1, 2, 3, 4, 5),
    in_words=_in_words,
)
