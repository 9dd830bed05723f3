"""Part 2: a run that goes on from its checkpoint as if nothing had happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from course_lib.checks.exercise_08.errors import in_error
from course_lib.checks.part import ONE_PROCESS, Attempt, Case, Compared, Part

_LISTED = 12
# steps, how many between checkpoints, and in which step each start is lost
_Situation = tuple[int, int, tuple[int | None, ...]]
_SECRET: _Situation = (11, 3, (5, 8, None))
_SITUATIONS: tuple[_Situation, ...] = (
    (5, 2, (None,)),
    (6, 2, (None,)),
    (8, 2, (6, None)),
    (7, 3, (3, None)),
    (9, 2, (4, 8, None)),
    (6, 3, (None, None)),
    (6, 1, (5, None)),
    _SECRET,
)


class Start(NamedTuple):
    """What is noted of one start: see ``living._Start``."""

    steps: tuple[int, ...]
    saved: tuple[int, ...]
    off: tuple[int, ...] = ()


def _draw(_: int) -> list[Case]:
    return [_case(*situation, situation == _SECRET) for situation in _SITUATIONS]


def _case(last: int, every: int, lost: tuple[int | None, ...], secret: bool) -> Case:
    often = "step" if every == 1 else f"{every} steps"
    title = f"{last} steps, a checkpoint every {often}, {_what_happens(lost)}"
    expected = tuple(map(tuple, _expected(last, every, lost)))
    return Case.alone(title, (last, every, lost), expected, secret)


def _what_happens(lost: tuple[int | None, ...]) -> str:
    steps = [f"{step}" for step in lost if step is not None]
    if steps:
        return f"lost in step {' and then in step '.join(steps)}"
    return "nothing lost" + (", and started once more" if lost[1:] else "")


def _expected(last: int, every: int, lost: tuple[int | None, ...]) -> list[Start]:
    starts, kept = [], 0
    for each in lost:
        begin, end = kept, last if each is None else each - 1
        done = [step for step in range(begin + 1, end + 1) if step % every == 0 or step == last]
        kept = done[-1] if done else kept
        starts.append(Start(tuple(range(begin + 1, end + 1)), tuple(step - begin for step in done)))
    return starts


# --- What came back ---


class _Seen(NamedTuple):
    """The first start that is not as it should be: its number, what was expected, what came."""

    number: int
    expected: Start
    got: Start
    kept: int  # steps in the checkpoint that it should find
    last: int


def _seen(wrong: Compared) -> _Seen | None:
    """None where what came back is of another form, or nothing differs."""
    got, expected = wrong.played[0].value, wrong.case.expected[0]
    if not _are_starts(got) or len(got) != len(expected):
        return None
    for number, (one, other) in enumerate(zip(expected, got, strict=True)):
        if one != other:
            right = Start(*one)
            kept = right.steps[0] - 1 if right.steps else wrong.case.arguments[0][0]
            return _Seen(number, right, Start(*other), kept, wrong.case.arguments[0][0])
    return None


def _are_starts(value: object) -> bool:
    """Else the check's own notes were too long for the way back."""
    return isinstance(value, tuple) and all(
        isinstance(start, tuple) and len(start) == 3 and all(isinstance(part, tuple) for part in start)
        for start in value
    )


def _in_words(wrong: Compared, rank: int) -> tuple[str, str] | None:
    seen = _seen(wrong)
    if seen is None:
        return None
    got = f"start {seen.number + 1}: {_start_in_words(seen.got)}"
    if wrong.case.secret:
        return "(not shown in this case)", got
    return f"start {seen.number + 1}: {_start_in_words(seen.expected)}", got


def _start_in_words(start: Start) -> str:
    parts = [_steps_in_words(start.steps)]
    after = [sum(start.steps[count - 1 : count]) for count in start.saved]
    parts.append(f"checkpoints after {_listed(after)}" if after else "no checkpoint")
    if start.off:
        step, *found = start.off
        names = ("weights", "moments", "random numbers")
        states = [f"{name} as before step {each}" if each else f"{name} of no step"
                  for name, each in zip(names, found, strict=True)]  # fmt: skip
        parts.append(f"step {step} with {', '.join(states)}")
    return "; ".join(parts)


def _steps_in_words(steps: Sequence[int]) -> str:
    if not steps:
        return "no step"
    if list(steps) == list(range(steps[0], steps[-1] + 1)):
        return f"steps {steps[0]} to {steps[-1]}"
    return f"steps {_listed(steps)}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join([*map(str, numbers[:_LISTED]), *(["…"] if len(numbers) > _LISTED else [])])


# --- mistakes ---

_NOT_USED = (
    "The checkpoint is not used: the run begins with step 1 again, with new weights. Ask `load` for it first."
)
_STEP_1_AGAIN = (
    "The weights go on, and the number of the step begins with 1 again: the learning rate's schedule and the "
    "data start anew. The checkpoint needs the step, too."
)
_ALL_DONE = "All steps are done, and there is nothing to train: the checkpoint says so."
_TWICE = (
    "A step is done twice: the last step of the checkpoint is in its weights already, and the run goes on "
    "with the next one."
)
_LEFT_OUT = "A step is left out: the run goes on with the one after the checkpoint's last step."
_ALL_ANEW = (
    "The number of the step goes on, and weights and moments begin anew: what the checkpoint holds has to be "
    "put into the model and the optimizer that are given."
)
_WEIGHTS = "The weights are not those of the checkpoint: `module.load_state_dict` puts them there."
_MOMENTS = (
    "The weights go on, and Adam's two moments do not: its first steps are those of an optimizer that knows "
    "nothing. `optimizer.state_dict()` belongs into the checkpoint."
)
_RANDOM = (
    "Weights and moments go on, and the random numbers do not: dropout has other masks than in the run that "
    "nothing happened to. `torch.get_rng_state()` belongs into the checkpoint."
)
_DISTURBED = (
    "Nothing was lost yet, and a step begins with other weights, moments or random numbers than the one "
    "before has left: leave them alone between steps."
)
_DISTURBED_LATER = (
    "A later start does the right steps, and one of them begins with other weights, moments or random "
    "numbers than the run that nothing happened to has there. What a checkpoint holds is put in once, before "
    "the first step; between steps all of it is left alone."
)


def _going_on(seen: _Seen) -> str | None:
    """With which step a later start goes on, and with what in the model."""
    if seen.number == 0 or not seen.got.steps or not seen.kept:
        return None
    first, off = seen.got.steps[0], seen.got.off
    if not seen.expected.steps:
        return _NOT_USED if first == 1 and not off else _ALL_DONE
    if first == 1:
        return _STEP_1_AGAIN if off else _NOT_USED
    wrong_step = {seen.kept: _TWICE, seen.kept + 2: _LEFT_OUT}
    if first in wrong_step:
        return wrong_step[first]
    return _not_restored(off) if off[:1] == (first,) and first == seen.kept + 1 else None


def _not_restored(off: tuple[int, ...]) -> str:
    step, *found = off
    weights, moments, _ = (each == step for each in found)
    if not weights:
        return _WEIGHTS if moments else _ALL_ANEW
    return _RANDOM if moments else _MOMENTS


def _in_the_first_start(seen: _Seen) -> str | None:
    if seen.number:
        return None
    if not seen.got.steps:
        return "No step is trained: `train_step(step)` trains one."
    if seen.got.steps[0] != 1:
        return "A new run begins with step 1."
    return _DISTURBED if seen.got.off else None


def _last_step(seen: _Seen) -> str | None:
    steps, expected = seen.got.steps, seen.expected.steps
    if expected and steps == expected[: len(steps)] != expected and expected[-1] == seen.last:
        return "The run ends before its last step: `range(a, b)` ends before b."
    return None


def _saved(seen: _Seen) -> str | None:
    got, expected, steps = seen.got.saved, seen.expected.saved, seen.got.steps
    if steps != seen.expected.steps or got == expected:
        return None
    if not expected and not steps and got:
        return "Nothing was trained, and a checkpoint is written: there is nothing new to keep."
    if not got:
        return "No checkpoint is written: `save` writes one."
    if got == tuple(range(1, len(steps) + 1)):
        return "A checkpoint is written after each step: it is asked for after every `every` steps."
    if len(got) > len(set(got)):
        return (
            "Two checkpoints are written after the same step: the last one is due as one of `every`, or as "
            "the last one, and it is enough to write it once."
        )
    if got == expected[:-1] and expected[-1] == len(steps):
        return "The checkpoint after the last step is missing: who goes on later would do some steps again."
    if got == (len(steps),):
        return "Only the end has a checkpoint: what is lost before it is lost as a whole."
    return (
        "The checkpoints are written after other steps than those whose number is a multiple of `every`. "
        "Steps are counted from 1, and a checkpoint is due when its step is done."
    )


def _in_a_later_start(seen: _Seen) -> str | None:
    """The last resort: where ``_going_on`` has no word for it, and steps and checkpoints are right."""
    return _DISTURBED_LATER if seen.got == seen.expected._replace(off=seen.got.off) else None


_MISTAKES = (_in_the_first_start, _going_on, _last_step, _saved, _in_a_later_start)


def _mistake(wrong: Compared) -> str | None:
    seen = _seen(wrong)
    return seen and next(filter(None, (find(seen) for find in _MISTAKES)), None)


def _in_error(attempt: Attempt) -> str | None:
    text = str(attempt.error)
    if "'NoneType' object is not subscriptable" in text:
        return "Before the first checkpoint there is none, and `load()` returns None."
    return in_error(attempt)


RUN = Part(
    "run(module, optimizer, last, every, train_step, save, load)",
    _draw,
    (_mistake,),
    _in_error,
    world_sizes=ONE_PROCESS,
    in_words=_in_words,
)
