"""The explorer of lesson 03, and the picture of any state: they show what the table says."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from course_lib import ring_drawing, ring_table
from course_lib.explorers import ring_steps
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.ring_steps import Choice, Drawing
from course_lib.palette import COLORS
from course_lib.ring_drawing import Layout
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels

EVERY = [Choice(ranks, step) for ranks in range(2, 9) for step in range(2 * ranks - 1)]
SOME = [Choice(ranks, step) for ranks in (2, 3, 5, 8) for step in (0, ranks - 1, 2 * (ranks - 1))]
WHITE, GRADIENTS, COMMUNICATION = "#FFFFFF", COLORS["gradients"], COLORS["communication"]


def any_state(ranks, seed):
    """A state with all that can be in one: complete sums, wrong ones, strays, and what is no sum."""
    numbers = random.Random(seed)

    def source():
        rank, chunk = numbers.randrange(ranks), numbers.randrange(ranks)
        return numbers.choice([rank, rank, (rank, chunk)])

    def cell():
        sources = [source() for _ in range(numbers.randrange(2 * ranks))]
        return numbers.choice([None, range(ranks), set(range(ranks - 1)), sources, sources])

    return [[cell() for _ in range(ranks)] for _ in range(ranks)]


def drawn(choice):
    """What the explorer draws: its layout, and the artists by name."""
    drawing = Drawing()
    drawing.show(choice)
    names = ("frames", "places", "labels", "names", "messages", "links", "title")
    return ring_steps.layout(choice), dict(zip(names, drawing.changing, strict=True))


def cells_of(state, layout, arrived=None):
    """The same for a state alone."""
    _, axes = ring_drawing.sheet(layout.top + layout.ranks * layout.row)
    cells = ring_drawing.Cells(axes)
    cells.show(layout, state, arrived)
    return dict(zip(("frames", "places", "labels", "names"), cells.changing, strict=True))


def looks(artists, ranks):
    """The color of each place: of each rank, in it each chunk, in it each rank's input."""
    colors = [to_hex(color).upper() for color in artists["places"].get_facecolor()]
    return np.array(colors).reshape(ranks, ranks, ranks)


def box(path, offset):
    """Left, top, right and bottom of a path around its place, whose own axis goes up, in inches."""
    extents = path.get_extents()
    x, y = offset
    return x + extents.x0, y - extents.y1, x + extents.x1, y - extents.y0


def boxes(artist):
    paths, offsets = artist.get_paths(), artist.get_offsets()
    return [box(paths[n % len(paths)], offset) for n, offset in enumerate(offsets)]


def is_within(inner, outer, slack=1e-6):
    return (inner[0] >= outer[0] - slack and inner[1] >= outer[1] - slack
            and inner[2] <= outer[2] + slack and inner[3] <= outer[3] + slack)  # fmt: skip


def overlap(one, other):
    return (min(one[2], other[2]) > max(one[0], other[0]) + 1e-6
            and min(one[3], other[3]) > max(one[1], other[1]) + 1e-6)  # fmt: skip


# --- the choice ---


@pytest.mark.parametrize("wrong, sentence", [
    ({"ranks": 1}, "ranks=1: expected 2 to 8"),
    ({"ranks": 9}, "ranks=9: expected 2 to 8"),
    ({"ranks": 4, "step": 7}, "step=7: expected 0 to 6, for 4 ranks"),
    ({"ranks": 4, "step": -1}, "step=-1: expected a whole number, 0 or more"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("choice, sentence", [
    (Choice(4, 0), "Before step 1: each rank holds its own input, and nothing else."),
    (Choice(4, 3), "Step 3 of 6: reduce-scatter: what arrives is added to what is there."),
    (Choice(4, 4), "Step 4 of 6: all-gather: what arrives replaces what was there."),
])  # fmt: skip
def test_a_sentence_says_what_a_step_does(choice, sentence):
    assert ring_steps.sentence(choice) == sentence
    assert ring_steps.readout(choice).notes[0] == sentence


# --- the picture of a step ---


@pytest.mark.parametrize("choice", EVERY)
def test_places_show_whose_inputs_are_there_and_which_of_them_came_in_this_step(choice):
    layout, artists = drawn(choice)
    state = ring_table.after(choice.ranks, choice.step)
    before = ring_table.after(choice.ranks, max(choice.step - 1, 0))
    for (rank, chunk, source), color in np.ndenumerate(looks(artists, choice.ranks)):
        cell, old = state[rank][chunk], before[rank][chunk]
        replaced = choice.step >= choice.ranks and cell != old  # what was there already has come again
        new = choice.step and (source not in old or replaced)
        assert color == (WHITE if source not in cell else COMMUNICATION if new else GRADIENTS)


def test_in_the_last_steps_a_whole_chunk_comes():
    _, artists = drawn(Choice(3, 3))
    colors = looks(artists, 3)
    assert [(colors == COMMUNICATION)[rank].all(axis=1).tolist() for rank in range(3)] == [
        [False, False, True], [True, False, False], [False, True, False]
    ]  # fmt: skip


@pytest.mark.parametrize("choice", EVERY)
def test_complete_cells_have_a_thick_black_frame_and_the_others_a_thin_gray_one(choice):
    _, artists = drawn(choice)
    state = ring_table.after(choice.ranks, choice.step)
    complete = [len(cell) == choice.ranks for row in state for cell in row]
    frames = artists["frames"]
    assert [width > 2 for width in frames.get_linewidth()] == complete
    assert [to_hex(color) == "#000000" for color in frames.get_edgecolor()] == complete


@pytest.mark.parametrize("choice", EVERY)
def test_each_message_is_an_arrow_down_its_chunks_column_from_its_sender_to_its_receiver(choice):
    layout, artists = drawn(choice)
    arrows = [path.vertices for path in artists["messages"].get_paths()]
    tips, tails = [], []
    for vertices in arrows:
        x, highest, lowest = vertices[:, 0].mean(), vertices[:, 1].min(), vertices[:, 1].max()
        column = int(np.argmin([abs(layout.center(0, chunk)[0] - x) for chunk in range(choice.ranks)]))
        tops = {round(layout.corner(rank, 0)[1] - 0.02, 6): rank for rank in range(choice.ranks)}
        bottoms = {round(layout.corner(rank, 0)[1] + layout.cell[1] + 0.02, 6): rank
                   for rank in range(choice.ranks)}  # fmt: skip
        tips += [(tops[round(lowest, 6)], column)] if round(lowest, 6) in tops else []
        tails += [(bottoms[round(highest, 6)], column)] if round(highest, 6) in bottoms else []
    sent = ring_table.messages(choice.ranks, choice.step) if choice.step else []
    assert sorted(tips) == sorted((each.receiver, each.into) for each in sent)
    assert sorted(tails) == sorted((each.sender, each.chunk) for each in sent)
    assert len(arrows) == (choice.ranks + 1 if choice.step else 0)  # the ring's last link is in two pieces


@pytest.mark.parametrize("choice", SOME)
def test_names_arrows_and_cells_keep_clear_of_each_other(choice):
    layout, artists = drawn(choice)
    shapes = [path.get_extents() for name in ("messages", "links") for path in artists[name].get_paths()]
    arrows = [(each.x0, each.y0, each.x1, each.y1) for each in shapes]
    names, frames = boxes(artists["names"]), boxes(artists["frames"])
    title = boxes(artists["title"])
    assert len(names) == 2 * choice.ranks and len(title) == 2
    page = (0, 0, ring_drawing.WIDTH, ring_steps._HEIGHT)
    everything = [*names, *frames, *title, *arrows[:-3]]  # the way back is one line of three pieces
    assert all(is_within(each, page) for each in [*everything, *arrows])
    for one, other in itertools.combinations(everything, 2):
        assert not overlap(one, other), (one, other)
    assert not any(overlap(piece, other) for piece in arrows[-3:] for other in everything)


@pytest.mark.parametrize("choice", [SOME[0], SOME[-1]])
def test_the_key_is_on_the_page_below_all_else(choice):
    figure = ring_steps.figure(choice)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    extents = axes.get_legend().get_window_extent()
    assert figure.bbox.x0 <= extents.x0 and extents.x1 <= figure.bbox.x1 and extents.y0 >= 0
    layout, artists = drawn(choice)
    lowest = max(shape.vertices[:, 1].max() for shape in artists["messages"].get_paths() or
                 artists["links"].get_paths())  # fmt: skip
    assert extents.y1 < (ring_steps._HEIGHT - lowest) * figure.dpi


# --- the picture of any state ---


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize("note", [0.0, 0.17])
@pytest.mark.parametrize("row, between", [(0.52, 0.1), (0.62, 0.1), (0.58, 0.2), (1.3, 0.2)])
def test_places_lie_in_their_cells_and_cells_side_by_side(ranks, note, row, between):
    layout = Layout(ranks, 0.5, row + note, between, note)
    artists = cells_of(ring_table.start(ranks), layout)
    frames, places = boxes(artists["frames"]), boxes(artists["places"])
    assert len(frames) == ranks**2 and len(places) == ranks**3
    for number, place in enumerate(places):
        assert is_within(place, frames[number // ranks])
    for one, other in itertools.combinations(frames, 2):
        assert not overlap(one, other)
    for start in range(0, len(places), ranks):
        for one, other in itertools.combinations(places[start : start + ranks], 2):
            assert not overlap(one, other)


@pytest.mark.parametrize("ranks", range(1, 9))
def test_labels_fit_their_places(ranks):
    layout = Layout(ranks, 0.5, 0.58, 0.2)
    width, height = layout.place
    place = (-width / 2, -height / 2, width / 2, height / 2)
    for rank, count in itertools.product(range(ranks), (1, 2, 9, 99)):
        assert is_within(box(ring_drawing._label(rank, count, layout.place), (0, 0)), place)


@pytest.mark.parametrize("ranks, seed", [*itertools.product(range(1, 9), range(3))])
def test_any_state_can_be_read_from_its_places(ranks, seed):
    state = any_state(ranks, seed)
    layout = Layout(ranks, 0.5, 0.8, 0.1)
    artists = cells_of(state, layout)
    centers, written = artists["places"].get_offsets(), artists["labels"].get_offsets()
    assert len(artists["labels"].get_paths()) == len(written)
    labels = dict(zip(map(tuple, written), artists["labels"].get_paths(), strict=True))
    seen = looks(artists, ranks)
    for number, (rank, chunk, source) in enumerate(np.ndindex(ranks, ranks, ranks)):
        cell = state[rank][chunk] or ()
        count = sum(each in (source, (source, chunk)) for each in cell)
        expected = WHITE if count == 0 else GRADIENTS if count == 1 else "#000000"
        assert seen[rank, chunk, source] == expected
        label = labels.get(tuple(centers[number]))
        assert label is (ring_drawing._label(source, count, layout.place) if count else None)
    thick = [width > 2 for width in artists["frames"].get_linewidth()]
    assert thick == [ring_table.is_complete(cell, chunk, ranks)
                     for row in state for chunk, cell in enumerate(row)]  # fmt: skip


def test_each_rank_has_a_label_of_its_own():
    layout = Layout(8, 0.5, 0.58, 0.2)
    shapes = {ring_drawing._label(rank, 1, layout.place).vertices.tobytes() for rank in range(8)}
    assert len(shapes) == 8


@pytest.mark.parametrize("ranks, text", [(2, "1×2"), (4, "1×2"), (6, "1×2"), (8, "×2")])
def test_what_is_there_twice_says_so_in_full_where_there_is_room(ranks, text):
    layout = Layout(ranks, 0.5, 0.58, 0.2)
    label, other = ring_drawing._label(1, 2, layout.place), ring_drawing._text(text, 10)
    assert len(label.vertices) == len(other.vertices)
    assert label.get_extents().width / label.get_extents().height == pytest.approx(
        other.get_extents().width / other.get_extents().height
    )


@pytest.mark.parametrize("ranks, seed", [*itertools.product((1, 2, 3, 5, 8), range(2))])
def test_words_in_cells_stay_there_and_below_the_places(ranks, seed):
    state = any_state(ranks, seed)
    state[0][0] = None
    figure = ring_table.picture(state, "What your ring left on each rank")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    frames, places, *_ = axes.collections
    to_inches = axes.transData.inverted()
    title, *notes = [text.get_window_extent().transformed(to_inches) for text in axes.texts]
    assert notes
    for note in notes:
        (left, right), (top, bottom) = sorted((note.x0, note.x1)), sorted((note.y0, note.y1))
        seen = (left, top, right, bottom)
        assert sum(is_within(seen, frame) for frame in boxes(frames)) == 1
        assert not any(overlap(seen, place) for place in boxes(places))


@pytest.mark.parametrize("cell, width, text", [
    (None, 0.8, "not a sum"),
    ([0, (1, 2)], 3, "+ chunk 2 from 1"),
    ([(1, 2), (0, 2), (3, 2)], 3, "+ chunk 2 from 0, 1, 3"),
    ([(1, 2), (0, 2), (3, 2)], 0.8, "+ chunk 2"),
    ([(1, 2), (0, 1)], 0.8, "+ chunks 1, 2"),
    ([(1, 2), (0, 1), (0, 3), (0, 4)], 0.8, "+ 4 chunks"),
])  # fmt: skip
def test_what_no_place_can_show_is_said_in_words(cell, width, text):
    assert ring_drawing._note(cell, 0, width) == text


def test_a_picture_says_the_same_in_words():
    state = [[[0, 0], None], [(), {0, 1}]]
    data, metadata = ring_table.picture(state, "What is left")._repr_mimebundle_()
    assert data["text/plain"] == metadata["image/png"]["alt"] == (
        "What is left.\n"
        "Rank 0: chunk 0 has rank 0 (twice); chunk 1 is not a sum of inputs.\n"
        "Rank 1: chunk 0 has nothing; chunk 1 is complete."
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 8), st.integers(0, 1000))
def test_any_state_can_be_drawn(ranks, seed):
    state = any_state(ranks, seed)
    figure = ring_table.picture(state, "Any state")
    assert figure.description == f"Any state.\n{ring_table.words(state)}"


def test_making_a_picture_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.ring_steps import Choice, figure\n"
        "from course_lib.ring_table import after, picture\n"
        "figure(Choice()); picture(after(4, 2), 'x')"
    )


# --- fast and full ---


@pytest.fixture(scope="module")
def fast():
    """One drawing that goes from choice to choice, as behind the sliders."""
    drawing = Drawing()
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@pytest.mark.parametrize("choice", random.Random(1).sample(SOME, len(SOME)))
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, ring_steps.figure(choice))


def test_the_figure_says_in_words_what_it_shows():
    data, _ = ring_steps.figure(Choice(2, 1))._repr_mimebundle_()
    assert data["text/plain"] == (
        "Step 1 of 2: reduce-scatter: what arrives is added to what is there.\n"
        "Rank 0: chunk 0 is complete; chunk 1 has rank 0.\n"
        "Rank 1: chunk 0 has rank 1; chunk 1 is complete."
    )


# --- the sliders ---


@pytest.fixture
def explorer():
    return ring_steps.explorer()


def sliders(explorer):
    return explorer.children[0].children


def test_it_begins_with_the_choice_it_is_given():
    assert ring_steps.explorer(Choice(6, 9)).choice == Choice(6, 9)


def test_each_step_can_be_shown(explorer):
    _, step = sliders(explorer)
    assert (step.min, step.max) == (0, 6)
    for value in range(7):
        step.value = value
        assert explorer.choice == Choice(4, value)
        assert explorer.numbers.value == ring_steps.readout(Choice(4, value)).html()


def test_the_steps_that_there_are_follow_the_number_of_ranks(explorer):
    ranks, step = sliders(explorer)
    step.value = 6
    ranks.value = 8
    assert (step.max, explorer.choice) == (14, Choice(8, 6))
    step.value = 14
    ranks.value = 2
    assert (step.max, explorer.choice) == (2, Choice(2, 2))
    assert explorer.numbers.value == ring_steps.readout(Choice(2, 2)).html()
    ranks.value = 3
    assert (step.max, explorer.choice) == (4, Choice(3, 2))


def test_another_thread_may_ask_before_the_step_has_followed(explorer):
    ranks, step = sliders(explorer)
    step.value = 6
    ranks.unobserve_all("value")  # as in the moment before they are told
    ranks.value = 2
    assert (step.value, explorer.choice) == (6, Choice(2, 2))
    explorer.update()
    assert explorer.numbers.value == ring_steps.readout(Choice(2, 2)).html()


def test_without_a_live_widget_the_table_stands_for_the_picture():
    text = ring_steps.explorer(Choice(3, 1))._repr_mimebundle_()[0]["text/plain"]
    assert text == """\
        chunk 0  chunk 1  chunk 2
rank 0      0__      0_2      0__
rank 1      _1_      _1_      01_
rank 2      _12      __2      __2
Step 1 of 4: reduce-scatter: what arrives is added to what is there.
A digit is a rank whose input of this chunk is in the sum, _ one whose input is not."""


def test_the_description_follows_the_choice():
    drawing = Drawing()
    drawing.show(Choice(4, 2))
    drawing.show(Choice(4, 4))
    assert drawing.figure.description == (
        "What each of 4 ranks has of each chunk. "
        "Step 4 of 6: all-gather: what arrives replaces what was there."
    )
