"""Part 3: hooks that gather gradients in rows, and notice when a bucket is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from course_lib.checks import mistakes, values
from course_lib.checks.exercise_06 import problem
from course_lib.checks.exercise_06.errors import in_error
from course_lib.checks.exercise_06.problem import Row, Rows
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.values import Tensor

_SECRET = "(not shown in this case)"
_FIVE = ((2, 3), (4,), (3,), (2, 2), (5,))


def _draw(_: int) -> list[Case]:
    return [
        _case("two steps of two micro-batches", (2, 2, 2), 56),
        _case("three steps, float32", (3, 1, 2), 24, dtype="float32"),
        _case("a frozen parameter in the middle", (2, 1, 2), 56, frozen=(2,)),
        _case("the last parameter is frozen", (2, 1, 2), 56, frozen=(4,)),
        _case("a weight that two layers share", (2, 2, 2), 56, layers=_plain(0, 1, 2, 3, 4, 1)),
        _case("the last weight also in the first layer", (2, 1, 2), 56, layers=_plain(4, 0, 1, 2, 3, 4)),
        _case(
            "a shared weight, one use checkpointed: its hook fires twice", (2, 2, 2), 56,
            layers=((0, False), (1, True), (2, False), (3, False), (4, False), (1, False)),
        ),
        _case("one bucket for all", (2, 2, 1), 1000),
        _case(
            "seven layers, one of them checkpointed", (3, 2, 2), 64, secret=True,
            layers=((3, False), (0, False), (1, False), (2, True), (4, False), (2, False), (3, False)),
        ),
    ]  # fmt: skip


def _plain(*numbers: int) -> tuple[tuple[int, bool], ...]:
    return tuple((number, False) for number in numbers)


def _case(title: str, several: tuple[int, int, int], bucket_bytes: int, secret: bool = False, **more) -> Case:
    arguments = problem.arguments(title, 0, _FIVE, several, bucket_bytes, **more)
    return Case.alone(title, arguments, _passes(_in_rows(arguments, _summed), arguments), secret)


# --- what rows hold ---

Held = Callable[[list[Rows]], Rows]  # of the micro-batches of a step so far, for each trained weight


def _summed(micro_batches: list[Rows]) -> Rows:
    return [[sum(column) for column in zip(*rows, strict=True)] for rows in zip(*micro_batches, strict=True)]


def _added_up(micro_batches: list[Rows]) -> Rows:
    """A sum of what ``.grad`` held after each micro-batch."""
    return _summed([_summed(micro_batches[:count]) for count in range(1, len(micro_batches) + 1)])


def _never_zeroed(arguments: tuple) -> list[list[Row]]:
    """What ``.grad`` held is added up from pass to pass, over all steps."""
    passes = _in_rows(arguments, _summed)
    return [_summed(passes[:count]) for count in range(1, len(passes) + 1)]


def _in_rows(arguments: tuple, held: Held, forward: bool = False) -> list[list[Row]]:
    """For each backward pass what the row of each bucket holds."""
    passes = []
    for of_step in problem.gradients(arguments):
        for count in range(1, len(of_step) + 1):
            rows = held(of_step[:count])
            filled = [sorted(bucket) if forward else bucket for bucket in problem.filled(arguments)]
            passes.append([[*chain(*(rows[place] for place in bucket))] for bucket in filled])
    return passes


def _passes(rows: list[list[Row]], arguments: tuple) -> tuple:
    """What comes back: rows in the order in which buckets are full, and the gradients."""
    dtype, full_after = arguments[problem.WEIGHTS][0].dtype, problem.full_after(arguments)
    in_order = sorted(range(len(full_after)), key=full_after.__getitem__)
    gradients = [
        _summed(of_step[:count])
        for of_step in problem.gradients(arguments)
        for count in range(1, len(of_step) + 1)
    ]
    return tuple(
        (
            tuple(in_order),
            tuple(_tensor(dtype, buckets[number]) for number in in_order),
            tuple(full_after[number] for number in in_order),
            _tensor(dtype, [*chain(*of_pass)]),
        )
        for buckets, of_pass in zip(rows, gradients, strict=True)
    )


def _tensor(dtype: str, row: Sequence[float]) -> Tensor:
    return Tensor(dtype, (len(row),), tuple(row))


# --- what mistakes look like ---


@dataclass(frozen=True)
class AsIf(mistakes.AsIf):
    """Recognizes rows: ``formula`` gives what each pass has in its buckets, in their own order."""

    def __call__(self, wrong: Compared) -> str | None:
        arguments = wrong.case.arguments[0]
        made, right = self.formula(arguments), _in_rows(arguments, _summed)
        return self.sentence if made != right and _rows(wrong) == made else None

    def would_be_wrong_in(self, right: Compared) -> bool:
        arguments = right.case.arguments[0]
        return self.formula(arguments) != _in_rows(arguments, _summed)


def _as_if(sentence: str, *formulas: Callable[[tuple], list[list[Row]]]) -> list[AsIf]:
    return [AsIf(formula, sentence) for formula in formulas]


Calls = list[tuple[int, Tensor, int]]  # number, row, and after how many hooks
Pass = tuple[Calls, Tensor | None]  # and the gradients at its end: None if some `.grad` was None


def _passes_of(compared: Compared) -> Iterator[tuple[Pass, Pass]]:
    """For each backward pass what came, and what was expected."""
    for got, expected in zip(compared.got(0), compared.expected(0), strict=True):
        yield _pass(got), _pass(expected)


def _pass(value: Sequence) -> Pass:
    return list(zip(*value[:3], strict=True)), value[3]


def _are_passes(got: object, expected: Sequence) -> bool:
    return isinstance(got, list | tuple) and len(got) == len(expected) and all(map(_is_pass, got))


def _is_pass(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 4:
        return False
    if not isinstance(value[3], Tensor | None):
        return False
    return all(isinstance(each, list | tuple) for each in value[:3]) and len(set(map(len, value[:3]))) == 1


def _rows(compared: Compared) -> list[list[Row]]:
    return [
        [[*row.all_numbers] for _, row, _ in sorted(calls, key=lambda each: each[0])]
        for (calls, _), _ in _passes_of(compared)
    ]


def _weights(arguments: tuple) -> list[list[Row]]:
    rows = [[*arguments[problem.WEIGHTS][number].numbers] for number in problem.trained(arguments)]
    return _in_rows(arguments, lambda _: rows)


def _of_the_first_step(arguments: tuple) -> list[list[Row]]:
    """Rows whose views ``.grad`` has left."""
    *_, first = _in_rows(arguments, _summed)[: arguments[problem.INPUTS].shape[1]]
    right = _in_rows(arguments, _summed)
    return [*right[: arguments[problem.INPUTS].shape[1]], *([first] * len(right))][: len(right)]


def _form(wrong: Compared) -> str | None:
    """Comes first: all others rely on the form of what was noted, and of what was given to ``on_full``."""
    if not _are_passes(wrong.got(0), wrong.expected(0)):
        return "What was noted of the backward passes was changed: leave that to the exercise."
    for (calls, _), _ in _passes_of(wrong):
        for number, held, _ in calls:
            if type(number) is not int or not isinstance(held, Tensor):
                return "`on_full` gets the number of the bucket, and its row: a tensor."
            if len(held.shape) != 1:
                return "A row has one dimension: `reshape(-1)` makes one of a gradient of any shape."
    return None


def _other_buckets(wrong: Compared) -> str | None:
    for (calls, _), (right, _) in _passes_of(wrong):
        numbers, right_numbers = ({number for number, *_ in each} for each in (calls, right))
        if len(right) in numbers and 0 not in numbers:
            return "The first argument of `on_full` is the number of the bucket: 0 for the first one."
        if numbers - right_numbers:
            return f"There are more buckets than `fill_buckets` makes of the gradients.{_frozen(wrong)}"
    return None


def _frozen(wrong: Compared) -> str:
    if not wrong.case.arguments[0][problem.FROZEN]:
        return ""
    return " A frozen parameter has no gradient, and no place in a bucket."


def _other_length(wrong: Compared) -> str | None:
    for (calls, _), (right, _) in _passes_of(wrong):
        lengths = {number: row.shape for number, row, _ in right}
        if any(row.shape != lengths[number] for number, row, _ in calls):
            return f"A row has room for the gradients of its bucket, and for nothing else.{_frozen(wrong)}"
    return None


def _never_full(wrong: Compared) -> str | None:
    found, right = ([[*of_pass[0]] for of_pass in side] for side in (wrong.got(0), wrong.expected(0)))
    if not any(found):
        return "`on_full` is never called."
    frozen = wrong.case.arguments[0][problem.FROZEN]
    if found[0] == right[0] and not any(found[1:]):
        return (
            "Buckets are full in the first backward pass, and never again: where does the count for the next "
            "one begin?"
        )
    if frozen and any(len(numbers) < len(right[0]) for numbers in found):
        return "A bucket waits for a frozen parameter, whose gradient never comes: it is never full."
    if set(right[0]) - set(found[0]) == {max(right[0])}:
        return (
            "The last bucket is missing when a backward pass is over. It is a bucket although it may not "
            "reach the limit, and no other one comes after it."
        )
    if all(len(numbers) < len(right[0]) for numbers in found):
        return "Some buckets are never full: `on_full` is to be called for each of them, in each pass."
    return None


def _counted_on(wrong: Compared) -> str | None:
    """In the first backward pass all is right, and in later ones buckets are full too soon and too often."""
    (first, right), *later = ((calls, of_right) for (calls, _), (of_right, _) in _passes_of(wrong))
    if first == right and any(len(calls) > len(of_right) for calls, of_right in later):
        return (
            "The first backward pass is right, and from the second one on every hook of a bucket finds it "
            "full: the count never begins anew."
        )
    return None


def _too_often(wrong: Compared) -> str | None:
    for (calls, _), (right, _) in _passes_of(wrong):
        if len(calls) > len(right):
            if len(calls) == len(problem.firing(wrong.case.arguments[0])):
                return "Every hook calls `on_full`: the one that fills the bucket is to call it."
            return _FIRES_TWICE
    return None


_FIRES_TWICE = (
    "A bucket is taken for full before it is, since a hook has fired twice: with a part of the gradient, and "
    "then with the whole. `firings` says how often each one fires."
)
_BEFORE_ACCUMULATION = (
    "These are not the gradients that are in `.grad`. The hook of `register_hook` runs *before* a gradient "
    "is added there, and what it gets is the part of this micro-batch alone."
)


def _before_accumulation(wrong: Compared) -> str | None:
    """In the first place rows are right after a single micro-batch, but come a hook too soon."""
    arguments = wrong.case.arguments[0]
    rows, last = _rows(wrong), _in_rows(arguments, lambda micro_batches: micro_batches[-1])
    soon = all(
        count == right_count - 1
        for (calls, _), (right, _) in _passes_of(wrong)
        for (_, _, count), (_, _, right_count) in zip(calls, right, strict=False)
    )
    return _BEFORE_ACCUMULATION if rows == last and (soon or last != _in_rows(arguments, _summed)) else None


def _too_early(wrong: Compared) -> str | None:
    """``on_full`` is called before the bucket's last hook has fired."""
    for (calls, _), (right, _) in _passes_of(wrong):
        full_after = {number: count for number, _, count in right}
        if any(count < full_after[number] for number, _, count in calls):
            repeated = max(problem.firings(wrong.case.arguments[0]).values()) > 1
            return _FIRES_TWICE if repeated else (
                "`on_full` is called before the bucket has all of its gradients: its row is incomplete."
            )
    return None


def _too_late(wrong: Compared) -> str | None:
    for (calls, _), (right, _) in _passes_of(wrong):
        full_after = {number: count for number, _, count in right}
        if any(count > full_after[number] for number, _, count in calls):
            return (
                "`on_full` is called later than it could be: the hook of the last gradient that is missing "
                "is the one to call it."
            )
    return None


def _gradients_changed(wrong: Compared) -> str | None:
    for (_, got), (_, right) in _passes_of(wrong):
        if got != right:
            return (
                "`.grad` is None or has other numbers than it should have when the backward pass is over: "
                "what comes next adds to it, and the optimizer takes it from there."
            )
    return None


def _in_words(wrong: Compared, rank: int) -> tuple[str, str] | None:
    if _form(wrong):
        return None
    for number, ((calls, gradients), (right, of_right)) in enumerate(_passes_of(wrong), start=1):
        name = f"backward pass {number}:"
        if calls == right and gradients == of_right:
            continue
        if calls == right:
            pair = f"{name} .grad {of_right}", f"{name} .grad {gradients}"
        elif _when(right) != _when(calls):
            pair = f"{name} {_when(right)}", f"{name} {_when(calls)}"
        else:
            pair = _first_row(name, right, calls)
        return (_SECRET, pair[1]) if wrong.case.secret else pair
    return None


def _first_row(name: str, right: Calls, calls: Calls) -> tuple[str, str]:
    (bucket, expected, _), (_, got, _) = next(
        (one, other) for one, other in zip(right, calls, strict=True) if one != other
    )
    of_expected, of_got = values.texts(expected, got)
    return f"{name} bucket {bucket} {of_expected}", f"{name} bucket {bucket} {of_got}"


def _when(calls: Calls) -> str:
    full = ", ".join(f"bucket {number} after {count}" for number, _, count in calls[:8])
    return f"full: {full} hooks" if calls else "no bucket is full"


COLLECT = Part(
    "collect(module, bucket_bytes, firings, on_full)",
    _draw,
    (
        _form,
        _other_buckets,
        _other_length,
        _before_accumulation,
        *_as_if(
            "The rows hold the weights: a post-accumulate hook gets the *parameter*, and its gradient is in "
            "`.grad`.",
            _weights,
        ),
        _never_full,
        _counted_on,
        _too_often,
        _too_early,
        *_as_if(
            "Rows hold what they held in the first step. `.grad` was set to None there, and since then the "
            "backward pass puts new tensors into it: they lie elsewhere, and not in your rows.",
            _of_the_first_step,
        ),
        *_as_if(
            "Rows are added to, and `.grad`, which adds up by itself, has the earlier micro-batches in it: "
            "they count twice.",
            lambda arguments: _in_rows(arguments, _added_up),
            _never_zeroed,
        ),
        *_as_if(
            "The gradients of a bucket lie in forward order in its row: keep the order of `fill_buckets`.",
            lambda arguments: _in_rows(arguments, _summed, forward=True),
        ),
        _too_late,
        _gradients_changed,
    ),
    in_error,
    world_sizes=ONE_PROCESS,
    in_words=_in_words,
)
