"""What is timed is one right all-reduce, on all ranks, and nothing else.  No time itself is judged here."""

import pytest
import torch.distributed as dist

from course_lib import all_reduce_timing, ranks
from course_lib.all_reduce_timing import ALL_REDUCES, TORCH, measure, slowest, take_turns
from course_lib.cost_model import ALGORITHMS
from course_lib.explorers import all_reduce_costs
from course_lib.links import Links


def test_each_all_reduce_has_as_many_times_as_repeats():
    found = measure(list(ALL_REDUCES), 4096, 3, repeats=4)
    assert list(found) == list(ALL_REDUCES)
    assert all(len(seconds) == 4 and min(seconds) > 0 for seconds in found.values())


def test_the_slowest_rank_counts_in_each_repeat():
    assert slowest([[1.0, 5.0], [3.0, 2.0], [2.0, 4.0]]) == [3.0, 5.0]
    with pytest.raises(ValueError):
        slowest([[1.0], [1.0, 2.0]])


def test_on_paced_links_torchs_own_is_left_out():
    found = measure(["ring", TORCH], 4096, 2, Links("1gbit", kind="paced"))
    assert list(found) == ["ring"]


def wrong_sums(name):
    all_reduce_timing.ALL_REDUCES["nothing"] = lambda tensor: None
    all_reduce_timing.ALL_REDUCES["doubling"] = lambda tensor: tensor.mul_(dist.get_world_size())
    take_turns([name], 8, 1)


@pytest.mark.parametrize("name", ["nothing", "doubling"])
def test_what_does_not_add_up_is_refused(name):
    with pytest.raises(ranks.RankFailed, match=f"{name} left a wrong sum"):
        ranks.run(wrong_sums, 2, name, device="cpu")


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="algorithm='tree': expected one of 'star'"):
        measure(["tree"], 4096, 2)
    with pytest.raises(ValueError, match="bytes=6: expected a multiple of 4"):
        measure(["ring"], 6, 2)
    with pytest.raises(ValueError, match="bytes=0: expected a positive whole number"):
        measure(["ring"], 0, 2)


def test_names_are_those_of_the_cost_model_and_the_explorer():
    assert TORCH == all_reduce_costs.TORCH
    assert set(ALL_REDUCES) - {TORCH} <= set(ALGORITHMS)
