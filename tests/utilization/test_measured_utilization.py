"""Parts of a step are measured on ranks, and only where there is a core for each of them."""

import pytest
import torch

from course_lib import measured_utilization
from course_lib.measured_utilization import measure_parts, measure_peak_flops
from course_lib.transformer import TransformerConfig

CONFIG = TransformerConfig(layers=2, hidden=32, heads=2, vocab=256, context=16)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(measured_utilization, "usable_cores", lambda: 2)
    monkeypatch.setenv("COURSE_DEVICE", "cpu")


def test_the_parts_are_those_of_a_step():
    measured = measure_parts(CONFIG, 4, 16, 2, bucket_mb=0.05, first_bucket_mb=0.05, repeats=3, sizes=(64,))
    parts = measured.parts
    assert parts.flops == 2 * 4 * 16 * CONFIG.flops_per_token(16)
    assert measured.tokens_per_second == pytest.approx(2 * 4 * 16 / parts.step)
    assert sum(parts.shares().values()) == pytest.approx(1)
    assert all(seconds > 0 for seconds in (parts.compute, parts.exposed, parts.optimizer, parts.data))
    assert measured.spread >= 0


def test_one_rank_alone():
    parts = measure_parts(CONFIG, batch=1, sequence=16, count=1, repeats=1, sizes=(64,)).parts
    assert parts.idle == 0
    assert parts.flops == 16 * CONFIG.flops_per_token(16)


def test_what_ranks_multiply_is_counted_for_all_of_them():
    rates = [{2: [1.0, 5.0, 9.0], 4: [7.0, 7.0, 7.0]}, {2: [1.0, 5.0, 0.0], 4: [1.0, 1.5, 2.0]}]
    assert measured_utilization._best(rates) == 9  # 2, 10 and 9; 8, 8.5 and 9
    assert measure_peak_flops(1, sizes=(64,), dtype=torch.float64, repeats=2) > 0


@pytest.mark.parametrize("measure", [
    lambda: measure_peak_flops(3), lambda: measure_parts(CONFIG, batch=1, sequence=16, count=3)])  # fmt: skip
def test_ranks_that_share_a_core_are_not_measured(measure):
    with pytest.raises(ValueError, match="count=3: expected at most 2 ranks, one for each core"):
        measure()


@pytest.mark.parametrize("changes", [{"batch": 0}, {"sequence": 17}, {"repeats": 0}, {"count": 0}])
def test_bad_arguments_are_refused(changes):
    with pytest.raises(ValueError, match="expected"):
        measure_parts(**{"config": CONFIG, "batch": 1, "sequence": 16, "count": 1} | changes)


def test_wait_is_split_into_what_the_network_takes_and_what_the_late_rank_costs():
    common = {"step": 4.0, "compute": 2.0, "optimizer": 0.5, "data": 0.25}
    found = measured_utilization._Round.of_ranks([common | {"wait": 3.0}, common | {"wait": 1.0}])
    assert (found.exposed, found.idle, found.compute) == (1, 1, 2)
