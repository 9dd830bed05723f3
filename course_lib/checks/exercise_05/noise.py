"""Part 5: the gradient noise scale from squared norms at two batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import sqrt
from statistics import mean, median, pvariance

from course_lib.checks import draws, mistakes
from course_lib.checks.exercise_05 import results
from course_lib.checks.exercise_05.errors import in_error
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.tolerance import near, rounded
from course_lib.checks.values import text

Norms = Sequence[float]

_KNOWN = "one step, 32 and 256 samples"
_SECRET = "eleven steps, 24 and 192 samples"
_NO_GRADIENT = "two steps, 8 and 16 samples, noise hides the gradient"
_NOTHING_BUT_NOISE = "two steps, 8 and 16 samples, |G|² comes out at 0"
_NO_NOISE = "two steps, 4 and 32 samples, no noise to be seen"
# small norms, big norms, small batch, big batch: those whose steps are not drawn
_GIVEN: dict[str, tuple[Norms, Norms, int, int]] = {
    _KNOWN: ((0.44,), (0.09,), 32, 256),
    _NO_GRADIENT: ((1.5, 1.375), (0.625, 0.75), 8, 16),
    _NOTHING_BUT_NOISE: ((1.5, 0.5), (0.625, 0.375), 8, 16),
    _NO_NOISE: ((0.25, 0.5), (0.375, 0.625), 4, 32),
}
# |G|², tr(Σ), steps, small batch, big batch
_DRAWN: dict[str, tuple[float, float, int, int, int]] = {
    "four steps, 16 and 64 samples": (0.5, 20.0, 4, 16, 64),
    "seven steps, 8 and 16 samples": (0.25, 30.0, 7, 8, 16),
    "five steps, 1 and 4 samples": (0.05, 0.4, 5, 1, 4),
    "six steps, 512 and 4,096 tokens": (0.03, 70.0, 6, 512, 4096),
    _SECRET: (0.125, 11.0, 11, 24, 192),
}


def _draw(_: int) -> list[Case]:
    arguments = _GIVEN | {title: _drawn(*numbers) for title, numbers in _DRAWN.items()}
    shown = [title for title in _DRAWN if title != _SECRET]
    titles = [_KNOWN, *shown, _NO_GRADIENT, _NOTHING_BUT_NOISE, _NO_NOISE, _SECRET]
    return [
        Case.alone(title, arguments[title], estimated(*arguments[title]), title == _SECRET)
        for title in titles
    ]


def _drawn(gradient: float, trace: float, steps: int, small: int, big: int) -> tuple[Norms, Norms, int, int]:
    """Squared norms around their expectation, |G|² + tr(Σ)/B."""
    random = draws.random(f"noise {steps} {small}")
    of_small, of_big = (
        tuple(
            float(f"{(gradient + trace / batch) * random.uniform(1 - spread, 1 + spread):.4g}")
            for _ in range(steps)
        )
        for batch, spread in ((small, 0.1), (big, 0.4))
    )
    return of_small, of_big, small, big


# --- Right, and what mistakes look like ---

_Triple = tuple[float, float, float | None]


def _gradient(small: float, big: float, small_batch: float, big_batch: float) -> float:
    return (big_batch * big - small_batch * small) / (big_batch - small_batch)


def _trace(small: float, big: float, small_batch: float, big_batch: float) -> float:
    return (small - big) / (1 / small_batch - 1 / big_batch)


def estimated(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
    """What is asked for."""
    norms = mean(small), mean(big), small_batch, big_batch
    return _with_scale(_gradient(*norms), _trace(*norms))


def _with_scale(gradient: float, trace: float) -> _Triple:
    return gradient, trace, trace / gradient if gradient > 0 and trace >= 0 else None


def _steps(small: Norms, big: Norms, small_batch: int, big_batch: int) -> list[tuple[float, float]]:
    """|G|² and tr(Σ) of each step by itself."""
    return [
        (_gradient(*norms, small_batch, big_batch), _trace(*norms, small_batch, big_batch))
        for norms in zip(small, big, strict=True)
    ]


def _of_steps(take: Callable[[list[tuple[float, float]]], _Triple]) -> Callable[..., _Triple]:
    return lambda *arguments: take(_steps(*arguments))


def _mean_of_ratios(steps: list[tuple[float, float]]) -> _Triple:
    gradient, trace = (mean(column) for column in zip(*steps, strict=True))
    return gradient, trace, mean(trace / gradient for gradient, trace in steps)


def _only_positive(steps: list[tuple[float, float]]) -> _Triple:
    kept = [step for step in steps if min(step) > 0] or [(0.0, 0.0)]
    return _with_scale(*(mean(column) for column in zip(*kept, strict=True)))


def _not_below_zero(steps: list[tuple[float, float]]) -> _Triple:
    return _with_scale(*(mean(max(number, 0.0) for number in column) for column in zip(*steps, strict=True)))


def _sums(steps: list[tuple[float, float]]) -> _Triple:
    return _with_scale(*map(sum, zip(*steps, strict=True)))


def _changed(
    gradient: Callable[..., float] = _gradient, trace: Callable[..., float] = _trace,
    scale: Callable[[float, float], float | None] = lambda gradient, trace: _with_scale(gradient, trace)[2],
) -> Callable[..., _Triple]:  # fmt: skip
    """One of the three computed in another way, from the norms' means."""

    def compute(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
        norms = mean(small), mean(big), small_batch, big_batch
        return gradient(*norms), trace(*norms), scale(gradient(*norms), trace(*norms))

    return compute


def _squared(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
    of_small, of_big = ([norm**2 for norm in norms] for norms in (small, big))
    return estimated(of_small, of_big, small_batch, big_batch)


def _mean_before_squaring(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
    """A mean of squares is the square of the mean and the variance; of one step, exactly its own square."""
    of_small, of_big = ([mean(norms) - pvariance(map(sqrt, norms))] for norms in (small, big))
    return estimated(of_small, of_big, small_batch, big_batch)


def _median_norms(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
    return estimated([median(small)], [median(big)], small_batch, big_batch)


def _medians(steps: list[tuple[float, float]]) -> _Triple:
    return _with_scale(*map(median, zip(*steps, strict=True)))


def _median_of_ratios(steps: list[tuple[float, float]]) -> _Triple:
    gradient, trace = (mean(column) for column in zip(*steps, strict=True))
    return gradient, trace, median(trace / gradient for gradient, trace in steps)


def _divided_by_big(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
    gradient, trace, _ = estimated(small, big, small_batch, big_batch)
    return gradient, trace, trace / mean(big)


def _in_batches(of: Callable[[int, int], int]) -> Callable[..., _Triple]:
    """The noise scale divided by one of the batches."""

    def compute(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
        gradient, trace, scale = estimated(small, big, small_batch, big_batch)
        return gradient, trace, None if scale is None else scale / of(small_batch, big_batch)

    return compute


_Weight = Callable[[float, int], float]  # of a step, by what is kept of the average so far, and its number
_BEGINNINGS: tuple[_Weight, ...] = (
    lambda kept, number: 1 - kept,  # with 0
    lambda kept, number: 1 if number == 1 else 1 - kept,  # with the first step
    lambda kept, number: (1 - kept) / (1 - kept**number),  # with 0, and corrected for that
)
_KEPT = (0.1, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)


def _moving_average(kept: float, weight: _Weight, steps: list[tuple[float, float]]) -> _Triple:
    gradient = trace = 0.0
    for number, (of_gradient, of_trace) in enumerate(steps, start=1):
        gradient += weight(kept, number) * (of_gradient - gradient)
        trace += weight(kept, number) * (of_trace - trace)
    return _with_scale(gradient, trace)


def _swapped(small: Norms, big: Norms, small_batch: int, big_batch: int) -> _Triple:
    return estimated(big, small, small_batch, big_batch)


def _no_triple(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 3:
        return "Three values are expected: |G|², tr(Σ), and their ratio, the noise scale."
    return None


def _no_none(wrong: Compared) -> str | None:
    """All right, but there is a scale where there is none."""
    (gradient, trace, scale), got = wrong.case.expected[0], wrong.played[0].value
    if scale is None and got[2] is not None and near(got[:2], (gradient, trace), 1e-9):
        return (
            "There is no noise scale where |G|² is not above 0, or tr(Σ) is negative, and a number there "
            "would be taken for one: None is asked for."
        )
    return None


def _none(wrong: Compared) -> str | None:
    (gradient, trace, scale), got = wrong.case.expected[0], wrong.played[0].value
    if got[2] is None and scale is not None and near(got[:2], (gradient, trace), 1e-9):
        return "|G|² and tr(Σ) are right, and say that there is a noise scale: None is for where they don't."
    return None


def _no_numbers(wrong: Compared) -> str | None:
    """None in the third place may come from another mistake in the first two."""
    return None if wrong.played[0].value[2] is None else mistakes.not_a_number(wrong)


def _in_words(wrong: Compared, rank: int) -> tuple[str, str]:
    expected = results.SECRET if wrong.case.secret else _shown(wrong.expected(rank))
    return expected, text(wrong.got(rank)) if _no_triple(wrong) else _shown(wrong.got(rank))


def _shown(value: tuple) -> str:
    numbers = [f"{number:.6g}" if type(number) in (int, float) else text(number) for number in value]
    return "|G|² {}, tr(Σ) {}, noise scale {}".format(*numbers)


_MEAN_OF_RATIOS = (
    "The noise scale is a mean of the steps' ratios. On a single step |G|² may come out near 0, or below, "
    "and then its ratio outweighs all others: average first, then divide."
)

NOISE_SCALE = Part(
    "noise_scale(small_norms_sq, big_norms_sq, small_batch, big_batch)",
    _draw,
    (
        mistakes.nothing_returned,
        _no_triple,
        *as_if(_MEAN_OF_RATIOS, _of_steps(_mean_of_ratios)),
        *as_if(
            "Big and small are swapped: the norm of the small batch's gradient is the larger one, since it "
            "has more noise in it.",
            _swapped,
            _changed(trace=lambda *norms: -_trace(*norms)),
            _changed(gradient=lambda small, big, b, B: _gradient(big, small, b, B)),
        ),
        *as_if(
            "|G_big|² is taken for |G|². It has noise in it as well, tr(Σ)/B, though less than |G_small|² "
            "has.",
            _changed(gradient=lambda small, big, b, B: big),
            _changed(gradient=lambda small, big, b, B: big, trace=lambda small, big, b, B: b * (small - big)),
        ),
        *as_if(
            "|G_big|² is taken for |G|² when the ratio is made: it has noise in it as well.",
            _divided_by_big,
        ),
        *as_if(
            "|G_small|² is taken for |G|², and it has noise in it: tr(Σ)/B on average.",
            _changed(gradient=lambda small, big, b, B: small),
        ),
        *as_if(
            "tr(Σ) is what one sample's gradient scatters. The difference of the norms belongs to two "
            "batches, in which tr(Σ) stands divided by each of the batch sizes.",
            _changed(trace=lambda small, big, b, B: small - big),
            _changed(trace=lambda small, big, b, B: (small - big) / (B - b)),
            _changed(trace=lambda small, big, b, B: (small - big) * (B - b)),
            _changed(trace=lambda small, big, b, B: b * (small - big)),
            _changed(trace=lambda small, big, b, B: B * (small - big)),
        ),
        *as_if(
            "The ratio is upside down: where there is more noise, the noise scale is larger.",
            _changed(scale=lambda gradient, trace: gradient / trace),
        ),
        *as_if(
            "Steps in which |G|² or tr(Σ) comes out below 0 are left out. Their errors are on the low "
            "side, and without them those on the high side remain: all steps count.",
            _of_steps(_only_positive),
        ),
        *as_if(
            "Numbers below 0 are replaced by 0 step by step, and that moves the mean upwards: only the "
            "mean over all steps says something.",
            _of_steps(_not_below_zero),
        ),
        *as_if(
            "The noise scale is divided by a batch size. It is a number of samples, tr(Σ)/|G|², and not one "
            "of batches.",
            _in_batches(lambda b, B: B),
            _in_batches(lambda b, B: b),
        ),
        *as_if(
            "This is an exponential moving average over the steps. What is asked for are plain means over "
            "all steps that are given, and then their ratio. (McCandlish and others do take moving averages, "
            "which follow a model as it learns: another estimator.)",
            *(_of_steps(partial(_moving_average, *how)) for how in product(_KEPT, _BEGINNINGS)),
        ),
        *as_if("These are sums over the steps, and means are asked for.", _of_steps(_sums)),
        *as_if(
            "Only one of the steps is used: take the mean over all of them.",
            _of_steps(lambda steps: _with_scale(*steps[0])),
            _of_steps(lambda steps: _with_scale(*steps[-1])),
        ),
        *as_if(
            "The median over the steps is taken for their mean. The two equations hold for the mean, and the "
            "median of squared norms lies elsewhere, since they scatter more upwards than downwards.",
            _median_norms,
            _of_steps(_medians),
            _of_steps(_median_of_ratios),
        ),
        *as_if(
            "The norms are averaged over the steps before they are squared. The equations hold for the mean "
            "of squares, and the square of a mean is smaller.",
            _mean_before_squaring,
        ),
        *as_if("The norms are squared once more: what is given is squared already.", _squared),
        _no_none,
        _none,
        _no_numbers,
        rounded,
    ),
    in_error,
    world_sizes=ONE_PROCESS,
    in_words=_in_words,
)
