"""Part 2: several ranks, synchronized once in a step; the averaged gradient is clipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib.checks import draws, mistakes, playing
from course_lib.checks.exercise_05 import problem, results
from course_lib.checks.exercise_05.errors import in_error
from course_lib.checks.exercise_05.problem import MSE
from course_lib.checks.exercise_05.results import as_if
from course_lib.checks.exercise_05.simulated import Counts, Trained, Way, norm, train
from course_lib.checks.exercise_05.traffic import synchronized_once
from course_lib.checks.part import Attempt, Case, Part

_STEPS, _RATE, _SHAPE = 2, 0.05, (3, 5)
_MOST = problem.MORE  # the place of max_norm among the arguments


def _draw(ranks: int) -> list[Case]:
    return [
        _case(ranks, "K = 1", 1, 2, late_rank=ranks - 1),
        _case(ranks, "K = 3", 3, 2),
        _case(ranks, "K = 4", 4, 1, dtype="float32"),
        _case(ranks, "K = 4", 4, 1, of_norm=0.4),
        # The first step's gradient has 0.8 of the largest norm, so nothing is clipped.
        _case(ranks, "K = 2", 2, 3, of_norm=1 / 0.8),
        _case(ranks, "K = 2, a frozen parameter", 2, 2, with_frozen=True),
        _case(ranks, "K = 5", 5, 1, of_norm=0.7, secret=True),
    ]


def _case(
    ranks: int, title: str, accumulated: int, samples: int, dtype: str = "float64",
    of_norm: float | None = None, with_frozen: bool = False, **more,
) -> Case:  # fmt: skip
    """``of_norm``: max_norm, as a part of the norm of the first gradient."""
    seed, (outputs, features) = f"{ranks} {accumulated} {samples} {with_frozen}", _SHAPE
    model = problem.draw_model(dtype, _SHAPE, with_frozen, seed)
    arguments = []
    for rank in range(ranks):
        random, several = draws.random(f"{seed} {rank}"), (_STEPS, accumulated, samples)
        inputs = problem.draw(random, dtype, (*several, features))
        targets = problem.draw(random, dtype, (*several, outputs))
        arguments.append((*model, inputs, targets, _RATE, None))
    if of_norm:
        (first, *_), _ = _trained(Way())(arguments)[0]
        most = round(of_norm * norm(first), 3)
        title = f"{title}, max_norm = {most:g}"
        arguments = [(*of_rank[:_MOST], most) for of_rank in arguments]
    title = f"{title}, micro-batches of {samples} sample{'' if samples == 1 else 's'}, {dtype}"
    expected = _trained(Way())(arguments)
    return results.case(title, arguments, expected, samples, same_on_all_ranks=True, **more)


def _trained(way: Way) -> Callable[[Sequence[tuple]], list[Trained]]:
    """What all ranks have after steps that are made in this way."""

    def compute(arguments: Sequence[tuple]) -> list[Trained]:
        _, _, _, inputs, _, rate, most = arguments[0]
        batches = [problem.cut(problem.micro_batches(of_rank), inputs.shape[1]) for of_rank in arguments]
        return train(way, problem.model(arguments[0], MSE), rate, batches, most)

    return compute


def _as_if(sentence: str, *ways: Way) -> list[results.AsIf]:
    return as_if(sentence, *map(_trained, ways))


# --- What mistakes look like ---


def _weight(model: problem.Model) -> slice:
    return slice(0, -model.outputs)


def _bias(model: problem.Model) -> slice:
    return slice(-model.outputs, None)


def _frozen(attempt: Attempt) -> str | None:
    reached = playing.case_reached(attempt)
    if reached is not None and "frozen" in reached.title and "None" in str(attempt.error):
        return "A frozen parameter has no gradient: its `.grad` is None, with nothing to sum or to divide."
    return None


def _in_error(attempt: Attempt) -> str | None:
    return _frozen(attempt) or in_error(attempt)


def _always(k: int, micro_batches: int) -> bool:
    return True


def _never(k: int, micro_batches: int) -> bool:
    return False


def _only_after(place: int) -> Callable[[int, int], bool]:
    """After one micro-batch, counted from the first or from the last one, which is not itself the last."""
    return lambda k, micro_batches: k == place % micro_batches or (micro_batches == 1 and k == 0)


def _by(power: int) -> Callable[[Counts, int, int], float]:
    return lambda counts, rank, k: len(counts[rank]) ** power


def _once(counts: Counts, rank: int) -> float:
    return 1


TRAIN_STEP = Part(
    "train_step(module, micro_batches, loss_function, optimizer, all_reduce, max_norm)",
    _draw,
    (
        results.unreadable,
        results.never_stepped,
        results.no_gradient,
        results.steps_each,
        *_as_if(
            "Gradients are summed over the ranks, and nobody divides by N: they are N times too large.",
            Way(divisor=_once),
        ),
        *_as_if(
            "Nothing is divided: this is the sum over all ranks and micro-batches, and the mean is asked "
            "for.",
            Way(_by(0), _once),
        ),
        *_as_if(
            "The gradient is K times too large: `.grad` adds up, so it holds the sum over the micro-batches.",
            Way(_by(0)),
        ),
        *_as_if("The loss is multiplied by K: it has to count for less, not for more.", Way(_by(1))),
        *_as_if(
            "The learning rate is divided by K, in place of the loss. Plain SGD without clipping ends with "
            "the same weights, but the optimizer gets a gradient that is K times too large.",
            Way(_by(0), slower=lambda micro_batches, step: micro_batches),
            Way(_by(0), slower=lambda micro_batches, step: micro_batches ** (step + 1)),
        ),
        *_as_if(
            "This is divided by K twice, as in the loss and once more in the gradients: once makes a mean "
            "of the sum.",
            Way(_by(-2)),
        ),
        *_as_if(
            "This is divided by N twice: once makes a mean of the sum over the ranks.",
            Way(divisor=lambda counts, rank: len(counts) ** 2),
        ),
        *_as_if(
            "The ranks' gradients are averaged after the first micro-batch, and what comes after it stays "
            "on its rank. The first one's number is 0, and `0 % K` is 0, too.",
            Way(sums=_only_after(0)),
        ),
        *_as_if(
            "The ranks' gradients are averaged before the last micro-batch is in them: what comes after "
            "that stays on its rank.",
            Way(sums=_only_after(-2)),
        ),
        *_as_if(
            "Gradients are summed over the ranks after each micro-batch, and so is what was summed before: "
            "it counts N times more with each of them.",
            Way(lambda counts, rank, k: 1 / len(counts[rank]) / len(counts), _once, _always),
            Way(divisor=_once, sums=_always),
        ),
        *_as_if(
            "The optimizer steps with each rank's own gradient. The mean over the ranks has to be in "
            "`.grad` itself, and before the step.",
            Way(sums=_never),
        ),
        *_as_if(
            "The weights are averaged after the step, and not the gradients before it. With plain SGD that "
            "comes to the same, but not with clipping, nor with an optimizer that keeps moments.",
            Way(sums=_never, averages_weights=True),
        ),
        *_as_if(
            "Some parameters' gradients are averaged, and those of others are not: all of them are to be.",
            Way(only=_weight),
            Way(only=_bias),
        ),
        *_as_if(
            "The first step is right, and each later one also has the gradients of the steps before it in "
            "it: who clears `.grad`?",
            Way(zeroes=_never),
        ),
        *_as_if(
            "A step has the gradient of its last micro-batch alone: `.grad` is cleared while it still "
            "should add up.",
            Way(zeroes=_always),
            Way(_by(0), zeroes=_always),
        ),
        *_as_if(
            "Each rank clips its own gradient, and then they are averaged. Noise makes a rank's own norm "
            "larger than that of the average, and it is the average that the optimizer gets.",
            Way(clip="before"),
        ),
        *_as_if(
            "The gradient is clipped in the loop, after each micro-batch. It is to be clipped once, when it "
            "is the average of all micro-batches on all ranks.",
            Way(clip="each micro-batch"),
        ),
        *_as_if(
            "The sum over the ranks is clipped, and then divided by N: its norm is N times that of the "
            "average.",
            Way(clip="sum"),
        ),
        *_as_if(
            "The squares of the norm are added up over the ranks. But each rank has the whole average, and "
            "not a part of it, so the norm comes out √N times too large: 0.8 as 1.131371 with two ranks.",
            Way(clip="squares of all ranks"),
        ),
        *_as_if(
            "Each parameter's gradient is clipped by itself. `max_norm` is for the norm over all parameters.",
            Way(clip="each parameter"),
        ),
        *_as_if(
            "Each element is clipped by itself, as `clip_grad_value_` does, and the gradient points "
            "elsewhere afterwards. `max_norm` is for the norm over all elements: they shrink by one factor.",
            Way(clip="each element"),
        ),
        *_as_if(
            "A gradient that is shorter than `max_norm` is made longer: it is to stay as it is.",
            Way(clip="always"),
        ),
        *_as_if("Nothing is clipped to `max_norm`.", Way(clip="never")),
        results.kept_too_much,
        mistakes.ranks_apart,
        results.replicas_apart,
        results.digits_lost,
    ),
    _in_error,
    synchronized_once(scalars=1),
    (1, 2, 3, 4, 5),
    in_words=results.in_words,
)
