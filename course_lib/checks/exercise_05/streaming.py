"""Part 1: one rank, and a step of the optimizer after every K micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.checks import draws
from course_lib.checks.exercise_05 import problem, results
from course_lib.checks.exercise_05.errors import in_error
from course_lib.checks.exercise_05.results import as_if
from course_lib.checks.exercise_05.simulated import Replica, Trained
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part

_RATE = 0.05
_SECRET = (5, 12, 2, "float64")
# K, micro-batches, samples in each, dtype
_SITUATIONS = (
    (1, 3, 4, "float64"),
    (3, 6, 2, "float64"),
    (2, 6, 1, "float32"),
    (4, 8, 3, "float64"),
    (3, 7, 2, "float64"),
    (4, 6, 2, "float32"),
    (5, 3, 2, "float64"),
    _SECRET,
)


def _draw(_: int) -> list[Case]:
    return [_case(*situation) for situation in _SITUATIONS]


def _case(accumulated: int, count: int, samples: int, dtype: str) -> Case:
    seed = f"stream {accumulated} {count}"
    random, (outputs, features) = draws.random(seed), (2, 3)
    inputs = problem.draw(random, dtype, (count, samples, features))
    targets = problem.draw(random, dtype, (count, samples, outputs))
    model = problem.draw_model(dtype, (outputs, features), False, seed)
    arguments = [(*model, inputs, targets, _RATE, accumulated)]
    title = (
        f"{count} micro-batches of {samples} sample{'' if samples == 1 else 's'}, K = {accumulated}, {dtype}"
    )
    is_secret = (accumulated, count, samples, dtype) == _SECRET
    return results.case(title, arguments, _Way()(arguments), samples, secret=is_secret)


@dataclass(frozen=True)
class _At:
    """Where the loop is: micro-batch ``i`` of ``count``, of which ``accumulated`` make a step."""

    i: int
    count: int
    accumulated: int
    samples: int

    @property
    def in_step(self) -> int:
        """How many micro-batches the step has; the last step may have fewer."""
        return min(self.accumulated, self.count - self.i // self.accumulated * self.accumulated)

    @property
    def in_last_step(self) -> int:
        """How many micro-batches the last step of all has."""
        return (self.count - 1) % self.accumulated + 1

    @property
    def in_merged_step(self) -> int:
        """How many the step has, if the last one of K also takes those that are left over."""
        complete = max(1, self.count // self.accumulated)
        number = min(self.i // self.accumulated, complete - 1)
        return self.accumulated if number < complete - 1 else self.count - number * self.accumulated

    @property
    def is_last_of_k(self) -> bool:
        return (self.i + 1) % self.accumulated == 0

    @property
    def is_last_of_merged(self) -> bool:
        return self.is_end or (self.is_last_of_k and self.count - self.i > self.accumulated)

    @property
    def is_end(self) -> bool:
        return self.i + 1 == self.count


@dataclass(frozen=True)
class _Way:
    """A way through the micro-batches; what is not given is right."""

    factor: Callable[[_At], float] = lambda at: 1 / at.in_step
    steps: Callable[[_At], bool] = lambda at: at.is_last_of_k or at.is_end
    zeroes: Callable[[_At], bool] = lambda at: at.is_last_of_k or at.is_end
    slower: Callable[[_At], float] = lambda at: 1  # divides the learning rate

    def __call__(self, arguments: Sequence[tuple]) -> list[Trained]:
        ((*_, rate, accumulated),) = arguments
        replica = Replica(problem.model(arguments[0], problem.MSE), rate)
        batches = problem.micro_batches(arguments[0])
        for i, micro_batch in enumerate(batches):
            at = _At(i, len(batches), accumulated, len(micro_batch.inputs))
            replica.backward(micro_batch, self.factor(at))
            if self.steps(at):
                replica.step(self.slower(at))
            if self.zeroes(at):
                replica.zero_grad()
        return [replica.trained]


# --- What mistakes look like ---


def _by_k(at: _At) -> float:
    return 1 / at.accumulated


def _undivided(at: _At) -> float:
    return 1


def _is_first(at: _At) -> bool:
    return at.i % at.accumulated == 0


def _always(at: _At) -> bool:
    return True


def _never(at: _At) -> bool:
    return False


def _before_the_first(wrong: Compared) -> str | None:
    """A step with nothing, and then steps with something."""
    first, *others = wrong.got(0)[0]
    if first is not None or not others or None in others:
        return None
    return (
        "The optimizer steps before there is any gradient: the first micro-batch's number is 0, and `0 % K` "
        "is 0, too. So each step is made when the next one begins, and the last one never is."
    )


_NOT_DIVIDED = (
    "The gradient of a step is K times too large: `.grad` adds up, so it holds the sum over the "
    "micro-batches, and the mean is asked for."
)
_TOO_EARLY = (
    "The optimizer steps after the first of K micro-batches, and the others are left over for the next "
    "step. The first one's number is 0, and `0 % K` is 0, too."
)
_NEVER_CLEARED = (
    "The first step is right, and each later one also has the gradients of all steps before it in it: who "
    "clears `.grad`?"
)
_ONLY_LAST = (
    "A step has the gradient of its last micro-batch alone, divided by K: `.grad` is cleared while it "
    "still should add up."
)
_ONLY_LAST_UNDIVIDED = (
    "A step has the gradient of its last micro-batch alone: `.grad` is cleared while it still should add up."
)
_WHEN_THE_NEXT_BEGINS = (
    "The last step is missing: a step is made when the micro-batch after it begins, and none begins after "
    "the last one, so that its gradients stay in `.grad`."
)
_NO_LAST_STEP = (
    "The last step is missing: where the data run out, fewer than K micro-batches are left, and they make "
    "a step of their own."
)

TRAIN = Part(
    "train(module, micro_batches, accumulation_steps, loss_function, optimizer)",
    _draw,
    (
        results.unreadable,
        results.never_stepped,
        _before_the_first,
        results.no_gradient,
        results.steps_each,
        *as_if(
            _NOT_DIVIDED,
            _Way(_undivided),
            _Way(_undivided, steps=lambda at: at.is_last_of_k),
        ),
        *as_if(
            "The learning rate is divided by K, in place of the loss. Plain SGD ends with the same weights, "
            "but the optimizer gets a gradient that is K times too large: clipping and the moments of Adam "
            "need the mean.",
            _Way(_undivided, slower=lambda at: at.accumulated),
            _Way(_undivided, slower=lambda at: at.in_step),
        ),
        *as_if(
            "The loss is multiplied by K: then the gradient of a step is K² times the mean.",
            _Way(factor=lambda at: at.accumulated),
            _Way(factor=lambda at: at.in_step),
        ),
        *as_if(
            "This is divided by K twice, as in the loss and once more in the gradients: once makes a mean "
            "of the sum.",
            _Way(factor=lambda at: 1 / at.in_step**2),
            _Way(factor=lambda at: 1 / at.accumulated**2),
        ),
        *as_if(
            "This is divided by the number of samples, too. The loss of a micro-batch is the mean over its "
            "samples already.",
            _Way(factor=lambda at: 1 / at.in_step / at.samples),
            _Way(factor=lambda at: 1 / at.accumulated / at.samples),
        ),
        *as_if(
            "This is divided by the number of all micro-batches: a step has K of them.",
            _Way(factor=lambda at: 1 / at.count),
            _Way(factor=lambda at: 1 / at.count, steps=lambda at: at.is_last_of_k),
        ),
        *as_if(
            _TOO_EARLY,
            *(
                _Way(factor, steps, zeroes)
                for factor in (_by_k, _undivided, lambda at: 1 / at.in_step)
                for steps, zeroes in (
                    (_is_first, _is_first),
                    (lambda at: _is_first(at) or at.is_end, lambda at: _is_first(at) or at.is_end),
                )
            ),
        ),
        *as_if(
            _NEVER_CLEARED,
            _Way(zeroes=_never),
            _Way(_by_k, zeroes=_never),
            _Way(_by_k, steps=lambda at: at.is_last_of_k, zeroes=_never),
        ),
        *as_if(_ONLY_LAST, _Way(zeroes=_always), _Way(_by_k, zeroes=_always)),
        *as_if(_ONLY_LAST_UNDIVIDED, _Way(_undivided, zeroes=_always)),
        *as_if(
            "Only one step is made, after all micro-batches: K of them make a step.",
            *(_Way(factor, lambda at: at.is_end, _never) for factor in (_by_k, lambda at: 1 / at.count)),
        ),
        *as_if(
            _WHEN_THE_NEXT_BEGINS,
            *(
                _Way(factor, lambda at: at.is_last_of_k and not at.is_end)
                for factor in (_by_k, lambda at: 1 / at.in_step)
            ),
        ),
        *as_if(_NO_LAST_STEP, _Way(_by_k, lambda at: at.is_last_of_k)),
        *as_if(
            "Where fewer than K micro-batches are left at the end, the step before takes them too, and is "
            "the mean of more than K: they make a step of their own.",
            *(
                _Way(factor, lambda at: at.is_last_of_merged, lambda at: at.is_last_of_merged)
                for factor in (lambda at: 1 / at.in_merged_step, _by_k)
            ),
        ),
        *as_if(
            "Every step is divided by the number of micro-batches in the last one. That may be a step with "
            "fewer of them: each step is the mean over its own.",
            _Way(lambda at: 1 / at.in_last_step),
        ),
        *as_if(
            "Where fewer than K micro-batches are left for the last step, their sum is divided by K all "
            "the same, and comes out too small: it is to be the mean of those that are there.",
            _Way(_by_k),
        ),
        results.kept_too_much,
        results.digits_lost,
    ),
    in_error,
    world_sizes=ONE_PROCESS,
    in_words=results.in_words,
)
