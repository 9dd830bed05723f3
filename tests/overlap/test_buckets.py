"""Buckets are filled as torch's DDP fills them."""

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from course_lib import buckets

DTYPES = [torch.float32, torch.float64, torch.float16]
PARAMETERS = st.lists(st.tuples(st.integers(0, 300), st.sampled_from(DTYPES)), min_size=1, max_size=30)


@given(PARAMETERS, st.integers(1, 900), st.integers(1, 900))
def test_as_torch_does(parameters, first, limit):
    tensors = [torch.empty(size, dtype=dtype) for size, dtype in parameters]
    indices = list(reversed(range(len(tensors))))
    theirs, _ = dist._compute_bucket_assignment_by_size(
        [tensors[i] for i in indices], [first, limit], [False] * len(tensors), indices
    )
    ours = buckets.assign([each.nbytes for each in tensors], limit, first, [each.dtype for each in tensors])
    assert sorted(ours) == sorted(theirs)


def test_the_last_parameter_comes_first_and_a_full_bucket_is_closed():
    assert buckets.assign([64, 32, 400, 8], bucket_bytes=100) == [[3, 2], [1, 0]]
    assert buckets.assign([4, 4, 4], bucket_bytes=8, first_bucket_bytes=1) == [[2], [1, 0]]
    assert buckets.assign([4, 4, 4], bucket_bytes=float("inf")) == [[2, 1, 0]]


def test_buckets_of_two_types_are_in_the_order_in_which_they_fill():
    assert buckets.assign([1, 1, 1, 1], 2, keys="abab") == [[3, 1], [2, 0]]


def test_the_first_limit_is_never_the_larger_one():
    assert buckets.limits(25, 1) == (25 * 2**20, 2**20)
    assert buckets.limits(0.5, 1) == (2**19, 2**19)


@pytest.mark.parametrize("value", [0, -1, float("nan"), "1", None, True])
def test_limits_are_numbers_above_0(value):
    with pytest.raises(ValueError, match="bucket_mb="):
        buckets.limits(value, 1)
