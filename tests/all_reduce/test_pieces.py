"""Long chunks go around a ring of three or more in two pieces: the same bits and bytes, in more messages."""

from itertools import product

import pytest
import torch
import torch.distributed as dist

from course_lib import all_reduce, ranks
from tests.many_cases import run_cases

WHOLE, IN_PIECES = 2**40, 0  # from how many bytes on a chunk is cut
FUNCTIONS = ["ring", "reduce_scatter", "all_gather", "unchunked_ring"]
CASES = list(product(FUNCTIONS, (0, 1, 2, 3, 7, 8, 1009), (torch.float32, torch.bfloat16)))


def result(cut_from, function, size, dtype):
    """What the function left, and the bytes sent to each peer."""
    all_reduce._LONG = cut_from
    tensor = torch.randn(size).to(dtype)  # others on each rank: ranks are seeded with their number
    with ranks.traffic() as traffic:
        getattr(all_reduce, function)(tensor)
    return tensor, {peer: sent for peer, sent in traffic.sent.items() if sent}


@pytest.mark.parametrize("count", [1, 2, 3, 5, pytest.param(8, marks=pytest.mark.long)])
def test_pieces_change_neither_bits_nor_bytes(count):
    whole, pieces = (run_cases(result, count, [(cut, *case) for case in CASES]) for cut in (WHOLE, IN_PIECES))
    for case, ones, others in zip(CASES, whole, pieces, strict=True):
        for one, other in zip(ones, others, strict=True):
            assert torch.equal(one[0], other[0]) and one[1] == other[1], case


def order_of_a_long_ring():
    """What is posted and waited for, in order, by a ring of two steps on chunks that are cut."""
    order = []
    post, wait = all_reduce._post, all_reduce._wait

    def noted_post(*messages):
        order.append("post")
        return post(*messages)

    def noted_wait(messages):
        order.append("wait")
        wait(messages)

    all_reduce._post, all_reduce._wait = noted_post, noted_wait
    tensor = torch.full((all_reduce._LONG // 4 * dist.get_world_size(),), 1.0)
    all_reduce.ring(tensor)
    return order, bool((tensor == dist.get_world_size()).all())


def test_while_one_piece_is_added_the_other_one_is_under_way():
    """Between the first post and the last wait there is never a moment without a message under way."""
    for order, right in ranks.run(order_of_a_long_ring, 3, device="cpu"):
        assert right
        assert order == ["post"] + ["post", "wait"] * 7 + ["wait"]
