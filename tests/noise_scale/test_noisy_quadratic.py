"""The noisy quadratic: all that is said to be known about it is, and training on it gives the hyperbola."""

import math
from itertools import islice

import numpy as np
import pytest

from course_lib.noise_scale import Meter, TradeoffFit, fit_tradeoff, learning_rate, tradeoff
from course_lib.noisy_quadratic import NoisyQuadratic, Run, measure

PROBLEM = NoisyQuadratic()
BATCHES = [25, 50, 100, 200, 400, 800, 1600]


@pytest.fixture(scope="module")
def runs():
    return measure(PROBLEM, BATCHES)


def positions():
    random = np.random.default_rng(0)
    return [PROBLEM.start, PROBLEM.start * random.normal(size=300), random.normal(size=300)]


# --- what is known ---


def test_the_gradient_is_the_losss():
    for position in positions():
        change = 1e-6 * np.eye(300)[7]
        slope = (PROBLEM.loss(position + change) - PROBLEM.loss(position - change)) / 2e-6
        assert PROBLEM.gradient(position)[7] == pytest.approx(slope, rel=1e-5)


def test_gradients_of_batches_have_the_true_mean_and_the_known_covariance():
    random, position = np.random.default_rng(1), PROBLEM.start
    drawn = np.array([PROBLEM.batch_gradient(position, 50, random) for _ in range(4000)])
    error = np.sqrt(PROBLEM.noise_covariance(position) / 50 / 4000)
    assert np.abs((drawn.mean(axis=0) - PROBLEM.gradient(position)) / error).max() < 5
    assert drawn.var(axis=0) * 50 == pytest.approx(PROBLEM.noise_covariance(position), rel=0.12)
    between = np.corrcoef(drawn.T) - np.eye(300)
    assert np.abs(between).max() < 6 / np.sqrt(4000)


def test_the_noise_scale_is_the_same_everywhere_also_weighted_by_curvature():
    for position in positions():
        gradient, noise = PROBLEM.gradient(position), PROBLEM.noise_covariance(position)
        h = PROBLEM.curvatures
        assert noise.sum() / (gradient @ gradient) == pytest.approx(200)
        assert h @ noise / (h @ gradient**2) == pytest.approx(200)


def test_at_the_start_each_direction_has_the_same_part_of_a_loss_of_1():
    parts = PROBLEM.curvatures * PROBLEM.start**2 / 2
    assert parts == pytest.approx(np.full(300, 1 / 300)) and PROBLEM.loss(PROBLEM.start) == pytest.approx(1)


def test_a_meter_of_four_ranks_finds_its_noise_scale_while_it_trains():
    random, position, meter = np.random.default_rng(2), PROBLEM.start, Meter(None)
    for _ in range(600):
        ranks = np.array([PROBLEM.batch_gradient(position, 32, random) for _ in range(4)])
        meter.update((ranks**2).sum(axis=1).mean(), (ranks.mean(axis=0) ** 2).sum(), 32, 128)
        position = position - 1e-4 * ranks.mean(axis=0)
    low, high = meter.interval()
    assert meter.value().scale == pytest.approx(200, rel=0.05) and low < 200 < high


# --- learning rates ---


@pytest.mark.parametrize("batch", [6, 200, 6400])
def test_the_best_rate_shrinks_the_slowest_direction_fastest(batch):
    h = PROBLEM.curvatures

    def slowest(rate):
        return (1 - 2 * rate * h + (rate * h) ** 2 * (1 + 200 / batch)).max()

    best = PROBLEM.best_rate(batch)
    assert slowest(best) < min(slowest(0.99 * best), slowest(1.01 * best))
    assert best == learning_rate(batch, 200, 2 / 1.01)


@pytest.mark.parametrize("batch", [25, 200, 1600])
def test_and_of_all_rates_it_needs_about_the_fewest_steps_to_the_target(batch):
    rates = PROBLEM.best_rate(batch) * np.linspace(0.5, 1.1, 25)
    steps = [expected_steps(batch, rate) for rate in rates]
    assert expected_steps(batch, PROBLEM.best_rate(batch)) <= 1.03 * min(steps)


def expected_steps(batch, rate, target=0.03):
    """By the closed form; endless where the loss grows."""
    losses = ((step, PROBLEM.expected_loss(step, batch, rate)) for step in range(1, 2000))
    return next((step for step, loss in losses if loss <= target), math.inf)


def test_a_rate_left_alone_gains_nothing_from_a_bigger_batch():
    rate = PROBLEM.best_rate(25)
    alone = [PROBLEM.steps_to(0.03, batch, rate) for batch in BATCHES]
    assert max(alone) < 1.1 * min(alone)


def test_a_rate_that_grows_with_the_batch_without_end_diverges():
    rate = PROBLEM.best_rate(25)
    steps = [PROBLEM.steps_to(0.03, batch, rate * batch / 25) for batch in BATCHES]
    assert steps[2] < steps[1] < steps[0] and steps[4:] == [None, None, None]


# --- training ---


@pytest.mark.parametrize("batch", [25, 200, 1600])
def test_losses_follow_their_expectation(batch):
    rate = PROBLEM.best_rate(batch)
    losses = np.mean([list(islice(PROBLEM.losses(batch, seed=seed), 40)) for seed in range(20)], axis=0)
    expected = [PROBLEM.expected_loss(step, batch, rate) for step in range(1, 41)]
    assert losses == pytest.approx(np.array(expected), rel=0.1)


def test_training_depends_on_the_seed_alone():
    first, again, other = (list(islice(PROBLEM.losses(50, seed=seed), 5)) for seed in (1, 1, 2))
    assert first == again != other


def test_steps_are_the_first_at_which_the_target_is_reached():
    steps = PROBLEM.steps_to(0.5, 100)
    losses = list(islice(PROBLEM.losses(100), steps))
    assert losses[-1] <= 0.5 < min(losses[:-1])
    assert PROBLEM.steps_to(1, 10**9) == 1


def test_without_noise_it_is_gradient_descent():
    quiet = NoisyQuadratic(noise_scale=0)
    assert quiet.steps_to(0.03, 1) == quiet.steps_to(0.03, 1000) == expected_steps(10**12, quiet.best_rate(1))


# --- the trade-off ---


def test_the_fitted_critical_batch_is_the_noise_scale(runs):
    """Within what discrete steps leave: 5% here, less for a target that takes more steps."""
    fit = fit_tradeoff(BATCHES, [run.steps for run in runs])
    assert fit.critical_batch == pytest.approx(200, rel=0.1)
    for run in runs:
        steps, examples = tradeoff(run.batch, fit.critical_batch)
        assert run.steps / fit.least_steps == pytest.approx(steps, rel=0.05)
        assert run.examples / fit.least_examples == pytest.approx(examples, rel=0.05)


@pytest.mark.parametrize("noise_scale", [20, 2000])
def test_another_noise_scale_is_found_as_well(noise_scale):
    batches = [noise_scale // 4, noise_scale, noise_scale * 4, noise_scale * 16]
    runs = measure(NoisyQuadratic(noise_scale), batches, seeds=2)
    fit = fit_tradeoff(batches, [run.steps for run in runs])
    assert fit.critical_batch == pytest.approx(noise_scale, rel=0.12)


def test_runs_are_means_over_seeds(runs):
    rate = PROBLEM.swept_rate(400)
    steps = [PROBLEM.steps_to(0.03, 400, rate, seed) for seed in range(3)]
    assert runs[4] == Run(400, rate, sum(steps) / 3)
    assert runs[4].examples == pytest.approx(400 * sum(steps) / 3)


@pytest.mark.parametrize("batch", [1, 25, 200, 1600])
def test_a_sweep_that_does_not_know_the_noise_scale_finds_the_rules_rate(batch):
    assert PROBLEM.swept_rate(batch) == pytest.approx(PROBLEM.best_rate(batch), rel=0.05)


def test_a_target_out_of_reach_is_said(monkeypatch):
    monkeypatch.setattr("course_lib.noisy_quadratic._MOST_STEPS", 1000)
    with pytest.raises(ValueError, match="batch=1: expected a bigger one; 1,000 steps are not enough"):
        measure(NoisyQuadratic(1e6, directions=2), [1], seeds=1)


def test_a_fit_finds_the_hyperbola_that_points_lie_on():
    fit = fit_tradeoff([1, 10, 100, 1000], [30 + 600 / batch for batch in (1, 10, 100, 1000)])
    assert (fit.least_steps, fit.least_examples) == pytest.approx((30, 600))
    assert fit.critical_batch == pytest.approx(20)
    assert TradeoffFit(30.0, 600.0).critical_batch == 20


@pytest.mark.parametrize(("batches", "steps", "sentence"), [
    ([1, 2], [4, 3], "batches=[1.0, 2.0]: expected 3 sizes or more, since 2 fit any curve"),
    ([1, 2, 2], [4, 3, 3], "batches=[1.0, 2.0]: expected 3 sizes or more"),
    ([1, 2, 4], [4, 3], "3 batches, 2 steps: expected as many of each"),
    ([1, 2, 4], [9, 4, 1], "steps shrink as fast as batches grow: expected bigger batches as well"),
    ([1, 2, 4], [3, 4, 5], "steps do not shrink as batches grow: expected smaller batches as well"),
    ([1, 2, 0], [4, 3, 2], "batches=0: expected a number above 0"),
    ([1, 2, 4], [4, 3, None], "steps=None: expected a number above 0"),
])  # fmt: skip
def test_points_that_show_no_hyperbola_are_refused(batches, steps, sentence):
    with pytest.raises(ValueError) as caught:
        fit_tradeoff(batches, steps)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(("call", "name"), [
    (lambda: NoisyQuadratic(-1), "noise_scale=-1"), (lambda: NoisyQuadratic(math.nan), "noise_scale=nan"),
    (lambda: NoisyQuadratic(directions=1), "directions=1"), (lambda: PROBLEM.losses(0), "batch=0"),
    (lambda: NoisyQuadratic(flattest=0), "flattest=0"), (lambda: NoisyQuadratic(flattest=2), "flattest=2"),
    (lambda: PROBLEM.losses(2.5), "batch=2.5"), (lambda: PROBLEM.losses(1, rate=0), "rate=0"),
    (lambda: PROBLEM.steps_to(0, 1), "target=0"), (lambda: PROBLEM.steps_to(2, 1), "target=2"),
    (lambda: measure(PROBLEM, [1], seeds=0), "seeds=0"), (lambda: measure(PROBLEM, [True]), "batch=True"),
    (lambda: PROBLEM.best_rate(math.inf), "batch=inf"),
])  # fmt: skip
def test_numbers_that_can_not_be_are_refused_by_name(call, name):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(f"{name}: expected a")


def test_a_learner_can_not_bend_the_problem():
    with pytest.raises(ValueError):
        PROBLEM.curvatures[0] = 2
    position = PROBLEM.start
    position *= 2
    assert PROBLEM.loss(PROBLEM.start) == pytest.approx(1)
