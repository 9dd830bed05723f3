"""The noise scale: estimates converge to what is known, and what can't be known is said."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib import noise_scale
from course_lib.noise_scale import (
    Estimate,
    Meter,
    critical_batch_tokens,
    estimate,
    learning_rate,
    tradeoff,
)

GRADIENT = np.random.default_rng(5).normal(size=50) * 0.1
NOISE = np.random.default_rng(6).uniform(0.5, 3, size=50)  # standard deviation of one sample's gradient
TRUE = float(NOISE @ NOISE / (GRADIENT @ GRADIENT))


def measured(steps, batches, seed):
    """What ranks with these batches measure on each step: mean |g|² of a rank, |g|² of all, both batches."""
    random = np.random.default_rng(seed)
    shares = np.array(batches) / sum(batches)
    spread = NOISE / np.sqrt(np.array(batches))[:, None]
    for _ in range(steps):
        ranks = GRADIENT + spread * random.normal(size=(len(batches), len(GRADIENT)))
        small = (ranks**2).sum(axis=1).mean()
        harmonic = len(batches) / sum(1 / batch for batch in batches)
        yield small, ((shares @ ranks) ** 2).sum(), harmonic, sum(batches)


def meter_of(steps, window=None):
    meter = Meter(window)
    for step in steps:
        meter.update(*step)
    return meter


# --- one estimate ---


def test_the_worked_example():
    result = estimate(0.44, 0.09, 32, 256)
    assert (result.gradient_sq, result.noise_trace) == pytest.approx((0.04, 12.8))
    assert result.scale == pytest.approx(320) and result.note == ""


@given(gradient_sq=st.floats(1e-6, 1e6), noise_trace=st.floats(0, 1e6), small=st.integers(1, 1000),
       times=st.integers(2, 1000))  # fmt: skip
def test_from_exact_expectations_it_is_exact(gradient_sq, noise_trace, small, times):
    big = small * times
    result = estimate(gradient_sq + noise_trace / small, gradient_sq + noise_trace / big, small, big)
    rounding = 1e-12 * (gradient_sq + noise_trace)
    assert result.gradient_sq == pytest.approx(gradient_sq, abs=rounding * 10)
    assert result.noise_trace == pytest.approx(noise_trace, abs=rounding * 10 * small)


@pytest.mark.parametrize(("numbers", "note"), [
    ((1.0, 0.1, 8, 32), "|G|² came out as 0 or less"), ((0.0, 0.0, 8, 32), "|G|² came out as 0 or less"),
    ((1.0, 2.0, 8, 32), "tr(Σ) came out negative"), ((1e300, 1e300 / 4, 8, 32), "|G|² came out as 0 or less"),
])  # fmt: skip
def test_what_noise_makes_negative_has_no_scale_and_a_note(numbers, note):
    result = estimate(*numbers)
    assert result.scale is None and result.note.startswith(note)


def test_without_noise_the_scale_is_0():
    assert estimate(2.0, 2.0, 8, 32) == Estimate(2.0, 0.0, 0.0)


# --- many steps ---


@pytest.mark.parametrize("batches", [(32, 32, 32, 32), (8, 64), (16,) * 8])
def test_it_converges_to_the_true_scale_and_the_mean_of_ratios_does_not(batches):
    """Also for unequal batches, whose gradients are averaged by their numbers of samples."""
    runs = [list(measured(4000, batches, seed)) for seed in range(4)]
    for value in (meter_of(run).value() for run in runs):
        assert value.scale == pytest.approx(TRUE, rel=0.05)
        assert value.gradient_sq == pytest.approx(GRADIENT @ GRADIENT, rel=0.05)
        assert value.noise_trace == pytest.approx(NOISE @ NOISE, rel=0.01)
    naive = [mean_of_ratios(run) / TRUE for run in runs]
    assert sum(abs(each - 1) < 0.05 for each in naive) <= 1 and max(naive) - min(naive) > 1


def mean_of_ratios(run):
    each = [estimate(*step) for step in run]
    return np.mean([one.noise_trace / one.gradient_sq for one in each])


def test_the_arithmetic_mean_of_unequal_batches_would_be_wrong():
    """So the harmonic mean is no fine point."""
    wrong = [(small, big, 36, both) for small, big, _, both in measured(3000, (8, 64), seed=0)]
    assert meter_of(wrong).value().scale is None


def test_a_meter_averages_first_and_divides_then():
    steps = [(0.5, 0.1, 8, 32), (0.4, 0.2, 8, 32), (3.0, 1.0, 4, 64)]
    meter = meter_of(steps)
    each = [estimate(*step) for step in steps]
    gradient_sq, noise_trace = (np.mean([getattr(one, name) for one in each])
                                for name in ("gradient_sq", "noise_trace"))  # fmt: skip
    assert meter.value() == Estimate(gradient_sq, noise_trace, noise_trace / gradient_sq)


def test_a_window_forgets():
    steps = list(measured(30, (32, 32), seed=0))
    assert meter_of(steps, window=7).value() == meter_of(steps[-7:]).value()
    assert len(meter_of(steps, window=7)) == 7 and len(meter_of(steps)) == 30


def test_a_window_may_be_longer_than_any_training():
    steps = list(measured(3, (32, 32), seed=0))
    assert meter_of(steps, window=10**30).value() == meter_of(steps).value()


def test_before_the_first_step_nothing_is_known():
    value = Meter().value()
    assert math.isnan(value.gradient_sq) and math.isnan(value.noise_trace)
    assert (value.scale, value.note) == (None, "No step was measured yet.")
    assert Meter().interval() == (0.0, math.inf)


def test_a_meter_leaves_out_steps_with_one_batch_size():
    meter = meter_of([(0.44, 0.44, 32, 32)] * 20)
    assert len(meter) == 0 and meter.interval() == (0.0, math.inf)
    assert meter.value().note == "The noise scale is undefined for one batch size, and no step had two."
    meter.update(0.44, 0.09, 32, 256)
    assert meter.value() == estimate(0.44, 0.09, 32, 256)


def test_a_refused_step_changes_nothing():
    meter = meter_of([(0.44, 0.09, 32, 256)])
    with pytest.raises(ValueError):
        meter.update(-1.0, 0.09, 32, 256)
    assert meter.value() == estimate(0.44, 0.09, 32, 256)


def test_a_meter_leaves_out_steps_that_overflow():
    meter = meter_of([(math.inf, math.inf, 32, 256), (0.44, math.nan, 32, 256)])
    assert len(meter) == 0 and meter.value().note == "No gradient was finite."


def bfloat16(number):
    return torch.tensor(number).bfloat16()


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.array, torch.tensor, bfloat16])
def test_numbers_of_numpy_and_torch_are_numbers(kind):
    meter = meter_of([(kind(math.nan), kind(1.0), 32, 256), (0.44, kind(math.inf), 32, 256)])
    assert len(meter) == 0 and meter.value().note == "No gradient was finite."
    meter.update(kind(0.5), kind(0.25), 32, kind(256.0))
    assert meter.value() == estimate(0.5, 0.25, 32, 256) == estimate(kind(0.5), kind(0.25), 32, kind(256.0))


@pytest.mark.parametrize("value", [torch.ones(1), np.ones((1, 1)), torch.tensor(True), torch.tensor(1j)])
def test_what_is_no_single_number_is_refused_by_a_meter_too(value):
    with pytest.raises(ValueError, match="small_norm_sq=.*: expected a number"):
        Meter().update(value, 0.25, 32, 256)


# --- the interval ---


def test_an_interval_is_the_same_each_time_and_holds_its_value():
    meter = meter_of(measured(50, (128,) * 4, seed=3))
    low, high = meter.interval()
    assert (low, high) == meter.interval() and low < meter.value().scale < high
    assert meter.interval(0.5)[0] > low and meter.interval(0.5)[1] < high


def test_more_steps_make_it_narrower():
    widths = []
    for steps in (20, 80, 320):
        low, high = meter_of(measured(steps, (128,) * 4, seed=1)).interval()
        widths.append(high - low)
    for wide, narrow in itertools.pairwise(widths):
        assert 1.3 < wide / narrow < 3.1  # 2, if it were exact


def test_where_noise_may_hide_the_gradient_there_is_no_upper_end():
    meter = meter_of([(1.0, 0.1, 8, 32)] * 5 + [(1.0, 0.6, 8, 32)] * 5)
    low, high = meter.interval()
    assert 0 < low < meter.value().scale and high == math.inf


@pytest.mark.parametrize("steps", [
    [(0.44, 0.09, 32, 256)] * 9, [(1.0, 0.1, 8, 32)] * 20, [(1, 2, 8, 32)] * 20])
def test_few_steps_and_undefined_scales_say_nothing(steps):
    assert meter_of(steps).interval() == (0.0, math.inf)


@pytest.mark.long
@pytest.mark.parametrize(("steps", "expected"), [(10, 0.84), (50, 0.88)])
def test_how_often_an_interval_holds_the_true_scale(steps, expected):
    hits = 0
    for seed in range(400):
        low, high = meter_of(measured(steps, (128,) * 4, seed)).interval()
        hits += low <= TRUE <= high
    assert hits / 400 == pytest.approx(expected, abs=0.04)  # two standard deviations


# --- what a noise scale is good for ---


@given(batch=st.floats(1e-3, 1e9), critical=st.floats(1e-3, 1e9))
def test_steps_and_examples_lie_on_the_hyperbola(batch, critical):
    steps, examples = tradeoff(batch, critical)
    # From 1 + x the x can't be had back to more digits than 1 has.
    expected = pytest.approx(1, rel=1e-14 * (1 + critical / batch + batch / critical))
    assert (steps - 1) * (examples - 1) == expected
    assert examples / steps == pytest.approx(batch / critical)


def test_at_the_critical_batch_both_double():
    assert tradeoff(320, 320) == (2.0, 2.0)
    assert tradeoff(1, 3) == (4.0, 1 + 1 / 3)


@pytest.mark.parametrize(("loss", "tokens"), [(3.0, 1.07e6), (3.5, 513e3), (1.0, 2e8)])
def test_critical_batches_of_language_models(loss, tokens):
    assert critical_batch_tokens(loss) == pytest.approx(tokens, rel=0.001)


def test_the_critical_batch_about_doubles_when_the_loss_falls_by_13_percent():
    assert critical_batch_tokens(3.0 * 0.87) / critical_batch_tokens(3.0) == pytest.approx(2, rel=0.05)


def test_the_learning_rate_grows_with_the_batch_and_stays_above_the_noise_scale():
    assert learning_rate(320, 320, 0.1) == pytest.approx(0.05)
    assert learning_rate(2, 1e6, 0.1) / learning_rate(1, 1e6, 0.1) == pytest.approx(2, rel=1e-5)
    assert learning_rate(1e9, 320, 0.1) == pytest.approx(0.1)
    assert learning_rate(1, 0, 0.1) == 0.1


# --- what is refused ---

BAD = [math.nan, math.inf, -math.inf, -1, -0.5, True, False, "8", None, 1j, [8], 10**400, -(10**400),
       Fraction(10**400)]  # fmt: skip
GOOD = {
    estimate: {"small_norm_sq": 0.44, "big_norm_sq": 0.09, "small_batch": 32, "big_batch": 256},
    tradeoff: {"batch": 32, "critical_batch": 320},
    critical_batch_tokens: {"loss": 3.0},
    learning_rate: {"batch": 32, "noise_scale": 320, "largest": 0.1},
}
MAY_BE_0 = {"small_norm_sq", "big_norm_sq", "noise_scale"}


@pytest.mark.parametrize(("function", "name"), [(f, name) for f, names in GOOD.items() for name in names])
def test_what_is_no_number_is_refused_by_name(function, name):
    for value in [*BAD, *([] if name in MAY_BE_0 else [0, 0.0])]:
        with pytest.raises(ValueError) as caught:
            function(**{**GOOD[function], name: value})
        assert str(caught.value).startswith(f"{name}=") and "expected a number" in str(caught.value)
        assert len(str(caught.value)) < 150 or isinstance(value, Fraction)


@pytest.mark.parametrize("value", [np.float32(32), np.int64(32), Fraction(32), 32.0])
def test_other_kinds_of_numbers_are_taken(value):
    assert estimate(0.44, 0.09, value, 256) == estimate(0.44, 0.09, 32, 256)


@pytest.mark.parametrize(("batches", "sentence"), [
    ((8, 8), "small_batch=8, big_batch=8: the noise scale is undefined for one batch size; expected two"),
    ((7.9, np.nextafter(7.9, 9)), "small_batch=7.9, big_batch=7.9: the noise scale is undefined"),
    ((32, 8), "small_batch=32, big_batch=8: expected the smaller one first; are they swapped?"),
])  # fmt: skip
def test_one_batch_size_and_swapped_ones_are_refused(batches, sentence):
    with pytest.raises(ValueError) as caught:
        estimate(0.44, 0.09, *batches)
    assert str(caught.value).startswith(sentence)
    if batches[0] > batches[1]:
        with pytest.raises(ValueError, match="swapped"):
            Meter().update(0.44, 0.09, *batches)


@pytest.mark.parametrize("numbers", [(1e308, 1.0, 1e10, 1e11), (1.0, 1e308, 1e10, 1e11)])
def test_numbers_too_large_to_compute_with_are_refused(numbers):
    with pytest.raises(ValueError, match="expected smaller numbers"):
        estimate(*numbers)


@given(st.lists(st.floats(min_value=0), min_size=4, max_size=4))
def test_any_numbers_give_finite_results_or_a_value_error(numbers):
    try:
        result = estimate(*numbers)
    except ValueError:
        return
    assert math.isfinite(result.gradient_sq) and math.isfinite(result.noise_trace)
    assert (result.scale is None) == bool(result.note)
    assert result.scale is None or 0 <= result.scale < math.inf


@pytest.mark.parametrize("window", [0, -1, 2.5, True, "all", math.nan])
def test_a_window_is_a_whole_number_or_none(window):
    with pytest.raises(ValueError, match="window="):
        Meter(window)


@pytest.mark.parametrize("level", [0, 1, 1.5, 90, math.nan, True, "0.9"])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(ValueError, match="level="):
        meter_of([(0.44, 0.09, 32, 256)] * 20).interval(level)


@pytest.mark.parametrize("loss", [0.009, 101])
def test_losses_that_no_language_model_has_are_refused(loss):
    with pytest.raises(ValueError) as caught:
        critical_batch_tokens(loss)
    assert str(caught.value) == f"loss={loss}: expected a number, 0.01 or more, 100 at most"


@pytest.mark.parametrize(("steps", "said"), [([8, 4, 2], "expected bigger"), ([2, 2, 2], "expected smaller")])
def test_a_minimum_that_is_only_rounding_is_not_in_sight(steps, said):
    with pytest.raises(ValueError, match=said):
        noise_scale.fit_tradeoff([1, 2, 4], steps)
