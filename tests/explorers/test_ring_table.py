"""The ring as a table: it goes as the real ring goes, and shows any state that a wrong ring may leave."""

import math
import random
import subprocess
import sys
from functools import partial
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import all_reduce, ranks, ring_table
from course_lib.ring_table import Message

WRONG = (
    ({0, 1}, [0, 1, 1], None),
    ([0, (2, 1)], (), {0, 1, 2}),
    ([(0, 0), (1, 0), (2, 0)], [2, 2, 2], [0, 1, 2, 2, (1, 1), (1, 1)]),
)
WRONG_TEXT = """\
        chunk 0     chunk 1  chunk 2
rank 0  01_         01_ 1×2  ?
rank 1  0__ c1:__2  ___      012
rank 2  012         __2 2×3  012 2×2 c1:_1_ 1×2
A digit is a rank whose input of this chunk is in the sum, _ one whose input is not.
×2: in it twice.
c and a number: what follows is input of that chunk, which does not belong there.
?: not a sum of inputs."""
WRONG_WORDS = """\
Rank 0: chunk 0 has ranks 0, 1; chunk 1 has ranks 0, 1 (twice); chunk 2 is not a sum of inputs.
Rank 1: chunk 0 has rank 0 and input of chunk 1 from rank 2; chunk 1 has nothing; chunk 2 is complete.
Rank 2: chunk 0 is complete; chunk 1 has rank 2 (3 times); chunk 2 has ranks 0, 1, 2 (twice) and input of \
chunk 1 from rank 1 (twice)."""


@st.composite
def states(draw):
    """Any state: what is there once, again, from elsewhere, and what is no sum."""
    world = draw(st.integers(1, ring_table.MOST_RANKS))
    source = st.integers(0, world - 1)
    cell = st.none() | st.lists(source | st.tuples(source, source), max_size=2 * world)
    return draw(st.lists(st.lists(cell, min_size=world, max_size=world), min_size=world, max_size=world))


def normal(state):
    """The same state, each cell as the library writes it."""
    return tuple(tuple(cell if cell is None else ring_table._cell(ring_table._sources(cell, chunk), chunk)
                       for chunk, cell in enumerate(row)) for row in state)  # fmt: skip


# --- as the real ring goes ---


def follow(algorithm):
    """Run an all-reduce on traceable numbers; before each message: what this rank sends whom, and holds."""
    world = dist.get_world_size()
    row = torch.tensor(ring_table.traceable_input(dist.get_rank(), world), dtype=torch.float32)
    post, seen = dist.batch_isend_irecv, []

    def batch_isend_irecv(operations):
        (send,) = [each for each in operations if each.op is dist.isend]
        seen.append((send.peer, send.tensor.storage_offset() // world**2, row.tolist()))
        return post(operations)

    dist.batch_isend_irecv = batch_isend_irecv
    algorithm(row)
    return [*seen, (None, None, row.tolist())]


@pytest.mark.parametrize("world", [2, 3, 5, 8])
def test_messages_and_states_are_those_of_the_real_ring_at_each_step(world):
    seen = ranks.run(follow, world, all_reduce.ring)
    for step, now in enumerate(zip(*seen, strict=True)):
        assert ring_table.traced([held for _, _, held in now]) == ring_table.after(world, step)
        if step == ring_table.steps(world):
            break
        expected = {rank: (peer, chunk) for rank, (peer, chunk, _) in enumerate(now)}
        sent = ring_table.messages(world, step + 1)
        assert {each.sender: (each.receiver, each.chunk) for each in sent} == expected
    assert step == 2 * (world - 1)


def test_one_rank_is_done_before_it_begins():
    (seen,) = ranks.run(follow, 1, all_reduce.ring)
    assert len(seen) == 1
    assert ring_table.traced([seen[0][2]]) == ring_table.after(1, 0) == (((0,),),)


@pytest.mark.parametrize("algorithm, step", [
    (all_reduce.reduce_scatter, 3), (all_reduce.unchunked_ring, 6), (all_reduce.star, 6),
])  # fmt: skip
def test_other_algorithms_leave_what_they_should(algorithm, step):
    state = ring_table.traced(ranks.run(left_by, 4, algorithm))
    assert state == ring_table.after(4, step)


def test_a_ring_that_sends_the_wrong_chunk_is_seen():
    state = ring_table.traced(ranks.run(left_by, 3, one_chunk_off))
    assert state[1] == ((1, (0, 2)), (1,), (1, (0, 1)))


def left_by(algorithm):
    row = torch.tensor(ring_table.traceable_input(dist.get_rank(), dist.get_world_size()))
    algorithm(row)
    return row.tolist()


def one_chunk_off(row):
    """A reduce-scatter that adds what arrives one chunk too far on."""
    rank, world = dist.get_rank(), dist.get_world_size()
    chunks, arriving = row.tensor_split(world), torch.empty_like(row[: world**2])
    for step in range(world - 1):
        all_reduce._wait(all_reduce._pass_on(chunks[(rank - step - 1) % world], arriving, None))
        chunks[(rank - step - 1) % world].add_(arriving)


# --- the table itself ---


@pytest.mark.parametrize("world", range(1, 9))
def test_all_that_is_held_at_the_end_is_complete_and_halfway_one_chunk_on_each_rank(world):
    half, end = world - 1, 2 * (world - 1)
    assert ring_table.after(world, end) == ((tuple(range(world)),) * world,) * world
    for rank, row in enumerate(ring_table.after(world, half)):
        complete = [chunk for chunk, cell in enumerate(row) if ring_table.is_complete(cell, chunk, world)]
        assert complete == ([rank] if world > 1 else [0])


@pytest.mark.parametrize("world", range(2, 9))
def test_each_step_sends_one_chunk_from_each_rank_to_the_next_and_each_chunk_once(world):
    for step in range(1, ring_table.steps(world) + 1):
        sent = ring_table.messages(world, step)
        assert [(each.sender, each.receiver) for each in sent] == [(r, (r + 1) % world) for r in range(world)]
        assert sorted(each.chunk for each in sent) == list(range(world))
        assert all(each.into == each.chunk and each.adds == (step < world) for each in sent)


@pytest.mark.parametrize("world", range(2, 9))
def test_nothing_is_added_twice_and_the_sums_grow(world):
    steps = [ring_table.after(world, step) for step in range(ring_table.steps(world) + 1)]
    for before, now in pairwise(steps):
        held = [(set(one), cell) for old, new in zip(before, now, strict=True)
                for one, cell in zip(old, new, strict=True)]  # fmt: skip
        assert all(one <= set(cell) and len(cell) == len(set(cell)) for one, cell in held)
        assert sum(len(cell) > len(one) for one, cell in held) == world


def test_messages_that_are_sent_together_carry_what_was_there_before():
    swap = [Message(0, 1, 0, 0, adds=False), Message(1, 0, 0, 0, adds=False)]
    assert ring_table.deliver(ring_table.start(2), swap) == (((1,), (0,)), ((0,), (1,)))


@pytest.mark.parametrize("message, cell", [
    (Message(0, 1, 0, 0, adds=True), (0, 1)),
    (Message(1, 1, 0, 0, adds=True), (1, 1)),
    (Message(0, 1, 1, 0, adds=True), (1, (0, 1))),
    (Message(0, 1, 1, 0, adds=False), ((0, 1),)),
])  # fmt: skip
def test_any_message_can_be_delivered(message, cell):
    assert ring_table.deliver(ring_table.start(2), [message])[1] == (cell, (1,))


def test_what_went_astray_and_comes_back_is_where_it_belongs():
    there, back = Message(0, 1, 1, 0, adds=False), Message(1, 0, 0, 1, adds=True)
    state = ring_table.deliver(ring_table.deliver(ring_table.start(2), [there]), [back])
    assert state[0][1] == (0, 0)


def test_a_sum_with_what_is_no_sum_is_none():
    state = ((None, (0,)), ((1,), (1,)))
    added = ring_table.deliver(state, [Message(0, 1, 0, 0, adds=True), Message(0, 1, 1, 1, adds=True)])
    assert added[1] == (None, (0, 1))


@pytest.mark.parametrize("arguments, sentence", [
    ((0, 0), "ranks=0: expected a positive whole number"),
    ((9, 0), "ranks=9: expected at most 8"),
    ((4, 7), "step=7: expected at most 6, the ring's steps on 4 ranks"),
    ((4, -1), "step=-1: expected a whole number, 0 or more"),
])  # fmt: skip
def test_steps_that_there_are_not_are_refused(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        ring_table.after(*arguments)
    assert str(caught.value) == sentence


# --- from numbers ---


@settings(deadline=None)
@given(states())
def test_numbers_tell_any_sums_of_inputs(state):
    """Added up by hand from the ranks' inputs, in a type that is exact for small whole numbers only."""
    world = len(state)
    inputs = [ring_table.traceable_input(rank, world) for rank in range(world)]
    left = [[number for chunk, cell in enumerate(row) for number in added_up(cell, chunk, inputs)]
            for row in state]  # fmt: skip
    assert ring_table.traced(left) == normal(state)


def added_up(cell, chunk, inputs):
    size = len(inputs) ** 2
    if cell is None:
        return [0.5] * size
    parts = [inputs[rank][size * of : size * (of + 1)] for rank, of in ring_table._sources(cell, chunk)]
    # An input that went astray is added in the place of this chunk, as a wrong ring would add it.
    return [float(sum(numbers)) for numbers in zip(*parts, [0] * size, strict=True)]


def test_each_input_is_a_1_at_a_place_of_its_own():
    inputs = [ring_table.traceable_input(rank, 3) for rank in range(3)]
    assert [len(each) for each in inputs] == [27, 27, 27]
    assert all(sum(each) == 3 for each in inputs)
    assert max(map(sum, zip(*inputs, strict=True))) == 1


@pytest.mark.parametrize("number", [0.5, -1, math.nan, math.inf, -math.inf, 1e30])
def test_what_is_no_count_is_not_a_sum(number):
    rows = [ring_table.traceable_input(rank, 2) for rank in range(2)]
    rows[1][5] = number
    assert ring_table.traced(rows) == (((0,), (0,)), ((1,), None))


def test_garbage_is_not_a_sum_of_inputs():
    numbers = random.Random(1)
    state = ring_table.traced([[numbers.gauss(0, 1) for _ in range(64)] for _ in range(4)])
    assert state == ((None,) * 4,) * 4


def test_an_average_is_not_a_sum_of_inputs():
    rows = [[number / 2 for number in ring_table.traceable_input(rank, 2)] for rank in range(2)]
    assert ring_table.traced(rows) == ((None, None), (None, None))


def test_too_few_numbers_are_refused():
    with pytest.raises(ValueError, match="rank 1 has 7 numbers: expected 2³ = 8"):
        ring_table.traced([[0] * 8, [0] * 7])


# --- in words ---


def test_a_state_as_a_text():
    assert ring_table.text(WRONG) == WRONG_TEXT


def test_a_state_in_words():
    assert ring_table.words(WRONG) == WRONG_WORDS


def test_a_right_state_needs_no_more_than_one_sentence():
    assert ring_table.text(ring_table.after(4, 2)) == """\
        chunk 0  chunk 1  chunk 2  chunk 3
rank 0  0___     0_23     0__3     0___
rank 1  _1__     _1__     01_3     01__
rank 2  _12_     __2_     __2_     012_
rank 3  _123     __23     ___3     ___3
A digit is a rank whose input of this chunk is in the sum, _ one whose input is not."""


@settings(deadline=None)
@given(states())
def test_different_states_have_different_texts_and_words(state):
    other = normal(state)
    assert ring_table.text(state) == ring_table.text(other)
    assert ring_table.words(state) == ring_table.words(other)
    (first, *rest), *rows = other
    changed = (((0,) if first is None else (*first, 0), *rest), *rows)
    assert ring_table.text(changed) != ring_table.text(other)
    assert ring_table.words(changed) != ring_table.words(other)


@pytest.mark.parametrize("state, sentence", [
    ((), "ranks=0: expected a positive whole number"),
    ([[[]] * 9] * 9, "ranks=9: expected at most 8"),
    ([[{0}, {0}], [{1}]], "rank 1 has 1 cells: expected one for each of 2 chunks"),
    ([[{2}, {0}], [{1}, {1}]], "rank 0, chunk 0 holds {2}: expected None, or a set, list or tuple of ranks"),
    ([[{0}, {0}], [{1}, 1]], "rank 1, chunk 1 holds 1: expected None, or a set, list or tuple of ranks"),
    ([[{0: 2}]], "rank 0, chunk 0 holds {0: 2}: expected None, or a set, list or tuple of ranks"),
    ([["0"]], "rank 0, chunk 0 holds '0': expected None, or a set, list or tuple of ranks"),
    ([[[(0, 1)]]], "rank 0, chunk 0 holds [(0, 1)]: expected None, or a set, list or tuple of ranks"),
])  # fmt: skip
@pytest.mark.parametrize("show", [ring_table.text, ring_table.words, partial(ring_table.picture, title="")])
def test_what_is_no_state_is_refused(show, state, sentence):
    with pytest.raises(ValueError) as caught:
        show(state)
    assert str(caught.value).startswith(sentence)


def test_the_table_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys\n"
        "from course_lib import ring_table\n"
        "ring_table.text(ring_table.traced([ring_table.traceable_input(0, 1)]))\n"
        "print(*(name in sys.modules for name in ('torch', 'matplotlib', 'numpy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == 3 * ["False"]
