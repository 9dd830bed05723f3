"""Part 4: the gradients of a module in bfloat16, added up in float32."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.checks import draws, values
from course_lib.checks.exercise_05 import problem, results
from course_lib.checks.exercise_05.errors import in_error
from course_lib.checks.exercise_05.problem import Row
from course_lib.checks.exercise_05.results import as_if
from course_lib.checks.exercise_05.simulated import Trained, scaled
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.values import Tensor

_SHAPE = (3, 5)  # outputs, features
_SECRET = 128
_ACCUMULATED = (1, 4, 32, 3, 64, _SECRET)


def _draw(_: int) -> list[Case]:
    return [_case(accumulated) for accumulated in _ACCUMULATED]


def _case(accumulated: int) -> Case:
    """One sample in a micro-batch, and few digits: bfloat16 rounds no gradient, but it rounds their sum."""
    random, (outputs, features) = draws.random(f"fp32 {accumulated}"), _SHAPE
    weight, bias = (problem.draw(random, "bfloat16", shape) for shape in (_SHAPE, (outputs,)))
    inputs = tuple(random.randint(4, 16) / 8 for _ in range(accumulated * features))
    signs = tuple(sign for _ in range(accumulated) for sign in (1.0, random.choice((-1.0, 1.0)), -1.0))
    arguments = (
        weight,
        bias,
        Tensor("bfloat16", (accumulated, 1, features), inputs),
        Tensor("bfloat16", (accumulated, 1, outputs), signs),
    )
    ((of_weight, of_bias), _), *_ = _summed(_exactly)((arguments,))
    expected = (
        (Tensor("float32", _SHAPE, tuple(of_weight)), Tensor("float32", (outputs,), tuple(of_bias))),
        Tensor("bfloat16", (outputs * (features + 1),), (*weight.numbers, *bias.numbers)),
        1,
        "bfloat16",
        0,
    )
    # A third is rounded in bfloat16 itself, and who divides the loss by 3 is right.
    tolerance = 0.01 if accumulated == 3 else 1e-6
    title = f"K = {accumulated}"
    return Case(title, (arguments,), (expected,), secret=accumulated == _SECRET, tolerance=tolerance)


# --- Sums of micro-gradients, right and wrong ---

_Sum = Callable[[list[float]], float]  # of what one element is in each micro-batch, times K


def _summed(add: _Sum) -> Callable[[Sequence[tuple]], list[Trained]]:
    """The gradients of weight and bias when each element is added up in this way, and divided by K."""

    def compute(arguments: Sequence[tuple]) -> list[Trained]:
        weight, bias, inputs, signs = arguments[0]
        outputs, features = _SHAPE
        rows, aims = problem.cut(inputs.numbers, features), problem.cut(signs.numbers, outputs)
        micro = [[*(a * x for a in aim for x in row), *aim] for row, aim in zip(rows, aims, strict=True)]
        total = scaled([add(list(column)) for column in zip(*micro, strict=True)], 1 / len(micro))
        return [([total[:-outputs], total[-outputs:]], [*weight.numbers, *bias.numbers])]

    return compute


def _exactly(numbers: Row) -> float:
    return sum(numbers)


def bf16(number: float) -> float:
    """The nearest number in bfloat16, as torch rounds: the upper half of a float32."""
    (bits,) = struct.unpack("I", struct.pack("f", number))
    rounded = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return struct.unpack("f", struct.pack("I", rounded))[0]


def _running(numbers: Row) -> list[float]:
    """What ``.grad`` holds after each micro-batch, if nobody clears it."""
    sums = [0.0]
    for number in numbers:
        sums.append(bf16(sums[-1] + number))
    return sums[1:]


# --- What mistakes look like ---


def _returned(wrong: Compared) -> Any:
    return wrong.got(0)[0]


def _unreadable(wrong: Compared) -> str | None:
    """Comes first: all others rely on the form of a result."""
    got, expected = wrong.got(0), wrong.expected(0)
    if type(got) is tuple and [*map(type, got[1:])] == [*map(type, expected[1:])]:
        return None
    return "What was computed can't be read: has the function replaced parts of the model?"


def _no_list(wrong: Compared) -> str | None:
    returned = _returned(wrong)
    if returned is None:
        return "The function returns None: it needs a `return`."
    several = isinstance(returned, tuple) and all(isinstance(each, Tensor) for each in returned)
    if not several or len(returned) != len(wrong.expected(0)[0]):
        return "A list of tensors is expected, one for each parameter, in the order of `module.parameters()`."
    return None


def _not_as_given(wrong: Compared) -> str | None:
    if wrong.got(0)[1].dtype != "bfloat16":
        return (
            "The module's own parameters are not in bfloat16 any more, and so each costs two bytes more. "
            "Only the sum is to have more digits."
        )
    if not wrong.got(0)[3]:
        return "The module has computed nothing from which a gradient could come."
    if wrong.got(0)[3] != "bfloat16":
        return (
            "The forward pass is not in bfloat16 any more: a copy of the module costs four bytes for each "
            "parameter, and its activations twice as many. Only the sum is to have more digits."
        )
    return None


def _other_form(wrong: Compared) -> str | None:
    for got, expected in zip(_returned(wrong), wrong.expected(0)[0], strict=True):
        if got.dtype != expected.dtype:
            return f"Tensors in float32 are expected, and these are in {got.dtype}."
        if got.shape != expected.shape:
            return "Each gradient has the shape of its parameter."
    return None


def _all_kept(wrong: Compared) -> str | None:
    if not wrong.got(0)[4]:
        return None
    return (
        "The gradients of all micro-batches are kept until the end: K times the gradients' memory. Add each "
        "of them to one sum in float32, and let go of it before the next micro-batch."
    )


def _in_words(wrong: Compared, rank: int) -> tuple[str, str] | None:
    if _unreadable(wrong):
        return None
    got, expected = wrong.got(rank), wrong.expected(rank)
    if _no_list(wrong) or _other_form(wrong):
        return _forms(expected[0]), _forms(got[0])
    if _not_as_given(wrong):
        return _dtypes(expected), _dtypes(got)
    for name, right, came in zip(("weight", "bias"), expected[0], got[0], strict=True):
        if not values.agree(came, right, wrong.case.tolerance):
            shown = values.texts(right, came, wrong.case.tolerance)
            right, came = (f"gradient of {name}: {text}" for text in shown)
            return (results.SECRET if wrong.case.secret else right), came
    if got[4] != expected[4]:
        return "memory for one sum", f"memory for {got[4]} times the gradients in float32"
    return results.kept(expected[2]), results.kept(got[2])


def _dtypes(result: tuple) -> str:
    return f"parameters in {result[1].dtype}, outputs in {result[3] or 'none'}"


def _forms(returned: Any) -> str:
    """What is returned, without its numbers."""
    items = returned if isinstance(returned, tuple) else (returned,)
    forms = [values.text(item).partition(" [")[0] for item in items]
    return " and ".join(forms) if len(forms) < 4 else f"{len(forms)} values"


GRADIENTS_IN_FP32 = Part(
    "gradients_in_fp32(module, micro_batches, loss_function)",
    _draw,
    (
        _unreadable,
        _no_list,
        _not_as_given,
        _other_form,
        *as_if(
            "These sums were made in bfloat16, and turned into float32 too late. A sum of many small "
            "numbers soon is so large that the next small one gets lost in rounding.",
            _summed(lambda numbers: _running(numbers)[-1]),
        ),
        *as_if(
            "This is a sum of sums: what is added is not one micro-batch's gradient. `.grad` adds up by "
            "itself, so it has the earlier ones in it unless it is cleared.",
            _summed(lambda numbers: sum(_running(numbers))),
        ),
        *as_if(
            "The gradients are K times too large: the mean over the micro-batches is asked for.",
            _summed(lambda numbers: sum(numbers) * len(numbers)),
        ),
        *as_if(
            "This is divided by K twice: once makes a mean of the sum.",
            _summed(lambda numbers: sum(numbers) / len(numbers)),
        ),
        *as_if(
            "This is the gradient of the last micro-batch alone, divided by K: nothing is added up.",
            _summed(lambda numbers: numbers[-1]),
        ),
        *as_if(
            "This is the gradient of the last micro-batch alone: nothing is added up.",
            _summed(lambda numbers: numbers[-1] * len(numbers)),
        ),
        _all_kept,
        results.kept_too_much,
    ),
    in_error,
    world_sizes=ONE_PROCESS,
    in_words=_in_words,
)
