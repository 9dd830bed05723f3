"""Steps are predicted from what was measured beside them; how well is a matter of benchmarks."""

import pytest

from course_lib import overlap_timing
from course_lib.links import Links
from course_lib.overlap_timing import RING


@pytest.mark.long
def test_each_round_has_a_prediction_of_all_micro_batches_and_its_steps():
    results = overlap_timing.measure(
        [2.0, 8.0], Links("800mbit", kind="paced"), count=2, rounds=2, steps=1, micro_batches=2, sequences=1,
        measured_rate=True,
    )  # fmt: skip
    assert [(each.name, each.bucket_mb) for each in results] == [(RING, 2.0), (RING, 8.0)]  # paced: no DDP
    assert [len(each.step.buckets) for each in results] == [4, 1]
    for result in results:
        assert len(result.predicted) == len(result.seconds) == 2
        assert all(ratio > 0 for ratio in result.ratios)
        passes = [event.label for event in result.step.compute]
        assert len(passes) == 2 * len(set(passes))  # each layer twice, forward and backward
