"""However a batch is divided over ranks and micro-batches, the loss curve is that of one process."""

from __future__ import annotations

import pytest

from course_lib import train
from tests.many_cases import run_cases
from tests.train.conftest import settings

pytestmark = pytest.mark.usefixtures("ranks_have_optimizers")

# Batches of 13 sequences, so that no division comes out even.
FLOAT64 = {
    1: [("buckets", 1, "ring"), ("buckets", 3, "ring"), ("ddp", 2, "ring"), ("step", 2, "ring")],
    2: [("buckets", 1, "ring"), ("buckets", 2, "torch"), ("ddp", 1, "torch"), ("step", 3, "ring")],
    3: [("buckets", 2, "ring"), ("ddp", 3, "ring"), ("step", 1, "torch")],
    4: [("buckets", 3, "ring")],
}
FLOAT32_STEPS, FLOAT32_BOUND = 10, 1e-5  # nats; README.md says so of a few dozen steps


def _one(case):
    outcome = train.train(settings(**case))
    return [record.loss for record in outcome.records], outcome.noise


@pytest.fixture(scope="module")
def curves():
    """By number of ranks: cases, with the losses and the noise scale of rank 0."""
    return {count: _curves(count, cases) for count, cases in FLOAT64.items()}


def _curves(count, cases):
    names = ("data_parallel", "micro_batches", "all_reduce")
    in_64 = [dict(zip(names, case, strict=True)) for case in cases]
    in_32 = [{"dtype": "float32", "steps": FLOAT32_STEPS, "micro_batches": count % 3 + 1}]
    found = run_cases(_one, count, [(case,) for case in in_64 + in_32])
    assert all(losses == of_ranks[0][0] for of_ranks in found for losses, _ in of_ranks)
    return [(case, *of_ranks[0]) for case, of_ranks in zip(in_64 + in_32, found, strict=True)]


def largest_difference(one, other):
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("count", FLOAT64)
def test_a_loss_curve_is_that_of_one_process(curves, count):
    _, alone, _ = curves[1][0]
    assert alone[-1] < alone[0] - 0.01, "it learns, so the curves are not equal for want of change"
    for case, losses, _ in curves[count][: len(FLOAT64[count])]:
        assert largest_difference(losses, alone) < 1e-9, case


@pytest.mark.parametrize("count", [2, 3, 4])
def test_in_float32_it_is_so_within_a_bound(curves, count):
    assert largest_difference(curves[count][-1][1], curves[1][-1][1]) < FLOAT32_BOUND


def test_the_noise_scale_is_estimated_wherever_two_batch_sizes_are_seen(curves):
    for count, cases in curves.items():
        for case, _, noise in cases:
            is_hidden = count == 1 or case.get("data_parallel") == "ddp"
            one_size = case["micro_batches"] == 1 and is_hidden
            assert (noise.noise_trace > 0) != one_size, (count, case, noise)
