"""The explorer of lesson 01: its numbers are the library's, and its picture shows these numbers."""

import itertools
import math
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from course_lib.activations import layer_terms, model_bytes
from course_lib.explorers import memory_wall
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.memory_wall import BY_PARAMETERS, CARDS, Choice, Drawing, Need, need, size
from course_lib.hardware import ACCELERATORS
from course_lib.memory import RECIPES, largest_model, model_state
from course_lib.palette import COLORS
from course_lib.transformer import CONFIGS
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels

POINTS = [(6_738_415_616, 107_814_649_856, "Llama-2-7B"), (124_439_808, 1_991_036_928, "GPT-2")]
SMALLEST = Choice(10**7, BY_PARAMETERS, "bf16-adam", "b200", 1, 128, "full", 3, 4096)
LARGEST = Choice(10**13, BY_PARAMETERS, "mixed-adam-fp32-grad-copy", "t4", 128, 2**17, "none", 1, 2)
ZERO_PAPER = Choice(7_500_000_000, BY_PARAMETERS, ranks=64)


@st.composite
def choices(draw):
    """Any place of the sliders."""
    one = lambda values: draw(st.sampled_from(list(values)))  # noqa: E731
    shape = one([BY_PARAMETERS, *CONFIGS])
    free = shape == BY_PARAMETERS
    parameters = round(10 ** draw(st.floats(7, 13))) if free else CONFIGS[shape].parameters
    return Choice(
        parameters, shape, one(RECIPES), one(CARDS), 2 ** one(range(8)), 2 ** one(range(7, 18)),
        one(["none", "selective", "full"]), one(range(4)), 2 ** one(range(13)),
    )  # fmt: skip


def artists(choice, points=()):
    """The two axes of a figure."""
    figure = memory_wall.figure(choice, points)
    figure.draw_without_rendering()
    return figure.axes


def moving(plane):
    """The lines that move: card, model state alone and sharded, largest models, activations, dot, ring."""
    return [line for line in plane.lines if line.get_zorder() >= 100]


# --- the numbers ---


@given(choices())
def test_each_piece_is_the_librarys(choice):
    alone, each = need(choice)
    whole = model_state(choice.parameters, choice.recipe)
    shard = model_state(choice.parameters, choice.recipe, choice.zero_stage, choice.ranks)
    activations = model_bytes(choice.config, choice.micro_batch, choice.sequence, choice.recompute)
    for needed, state in ((alone, whole), (each, shard)):
        assert needed.pieces == {**asdict(state), "activations": activations}
        assert needed.state == state.total
        assert needed.total == state.total + activations


@pytest.mark.parametrize("stage, gigabytes", [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_model_state_of_the_zero_paper(stage, gigabytes):
    """Rajbhandari et al., figure 1."""
    alone, each = need(replace(ZERO_PAPER, zero_stage=stage))
    assert alone.state == 120e9
    assert each.state / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_it_begins_as_the_lesson_measures_with_fused_attention():
    config = CONFIGS["llama-2-7b"]
    assert need(Choice())[0].pieces["activations"] == model_bytes(config, 1, 2048, attention="fused")


def test_plain_data_parallelism_lowers_nothing():
    alone, each = need(Choice(zero_stage=0, ranks=4096))
    assert alone == each


@pytest.mark.parametrize("free, verdict", [
    (0, "fits, 0 B free"), (-1, "1 B too much"), (1, "fits, 1 B free"),
])  # fmt: skip
def test_what_fits_to_the_byte(free, verdict):
    pieces = dict.fromkeys(memory_wall.PIECES, 10)
    assert Need(pieces, 50 + free).verdict == verdict


@pytest.mark.parametrize("number, text", [
    (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_949_999, "999.9 MB"), (999_950_001, "1 GB"),
    (107_814_649_856, "107.8 GB"), (160 * 10**12, "160 TB"), (3 * 10**17, "300 PB"),
])  # fmt: skip
def test_sizes_are_decimal_and_have_four_digits(number, text):
    assert size(number) == text


def test_a_shape_that_follows_from_p_has_gpt_3s_proportions():
    gpt_3, shape = CONFIGS["gpt-3-175b"], memory_wall.shape_for(175_000_000_000)
    assert (shape.layers, shape.hidden, shape.heads) == (gpt_3.layers, gpt_3.hidden, gpt_3.heads)


@pytest.mark.parametrize("parameters", [10**9, 7 * 10**9, 10**11, 10**12, 10**13])
def test_a_shape_that_follows_from_p_has_about_p_parameters_in_its_layers(parameters):
    shape = memory_wall.shape_for(parameters)
    # Layers are whole, and P goes with their cube.
    assert shape.layers * shape.layer_parameters == pytest.approx(parameters, rel=1.5 / shape.layers + 0.01)


@pytest.mark.parametrize("wrong, sentence", [
    ({"parameters": -1, "shape": BY_PARAMETERS}, "parameters=-1: expected a positive whole number"),
    ({"parameters": math.nan, "shape": BY_PARAMETERS}, "parameters=nan: expected a positive whole number"),
    ({"parameters": 10**9}, "parameters=1000000000: expected 6738415616, those of llama-2-7b, or shape="),
    ({"shape": "llama-2"}, "shape='llama-2': expected one of"),
    ({"card": "h100"}, "card='h100': expected one of"),
    ({"card": "a10"}, "card='a10': expected one of"),  # what its driver shows is not known
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("wrong", [{"recipe": "adam"}, {"recompute": "half"}, {"zero_stage": 4},
                                   {"micro_batch": 0}, {"sequence": 0.5}, {"ranks": -2}])  # fmt: skip
def test_what_the_library_refuses_the_figure_refuses(wrong):
    with pytest.raises(ValueError, match="expected"):
        memory_wall.figure(Choice(**wrong))


# --- the picture ---


@settings(max_examples=15, deadline=None)
@given(choices())
def test_bars_and_card_have_their_lengths_in_bytes(choice):
    _, bars = artists(choice)
    end = memory_wall.axis_end(max(need(choice)[0].total, choice.capacity))
    for row, needed in enumerate(need(choice)):
        patches = [patch for patch in bars.patches if row < patch.get_y() < row + 1]
        lengths = [patch.get_width() * end for patch in patches]
        assert lengths == pytest.approx(list(needed.pieces.values()))
        ends = list(itertools.accumulate(lengths, initial=0))
        assert [patch.get_x() * end for patch in patches] == pytest.approx(ends[:-1])
    (card,) = bars.lines
    assert np.unique(card.get_xdata()) * end == pytest.approx([choice.capacity])


@given(st.integers(1, 10**18))
def test_the_bars_axis_ends_at_the_next_round_number(number):
    end = memory_wall.axis_end(number)
    assert number <= end <= 2 * number
    assert size(end / 2) == size(float(f"{end / 2:.3g}"))  # three digits say it exactly


@pytest.mark.parametrize("choice, sizes", [(Choice(), ("75 GB", "150 GB")), (SMALLEST, ("100 GB", "200 GB"))])
def test_the_bars_say_how_long_their_axis_is_and_whether_they_fit(choice, sizes):
    _, bars = artists(choice)
    texts = {text.get_position(): text.get_text() for text in bars.texts}
    assert tuple(text for (_, height), text in texts.items() if height < 0) == sizes
    verdicts = [text for (left, height), text in texts.items() if left > 0.1 and height > 0]
    assert verdicts == [needed.verdict for needed in need(choice)]


def test_the_card_says_its_size():
    plane, _ = artists(Choice(card="t4"))
    assert "16.11 GB" in [text.get_text() for text in plane.texts]


def test_points_and_card_stand_at_their_logarithms():
    choice = Choice(zero_stage=3, ranks=64, micro_batch=4)
    plane, _ = artists(choice)
    card, solid, dashed, largest, stem, dot, ring = moving(plane)
    alone, each = need(choice)
    assert 10 ** card.get_ydata()[0] == pytest.approx(choice.capacity)
    assert 10 ** dot.get_xydata()[0] == pytest.approx([choice.parameters, alone.total])
    assert 10 ** ring.get_xydata()[0] == pytest.approx([choice.parameters, each.total])
    assert 10 ** np.array(stem.get_ydata()) == pytest.approx([alone.state, alone.total])
    sharded = {"recipe": choice.recipe, "zero_stage": 3, "ranks": 64}
    expected = [largest_model(choice.capacity, choice.recipe), largest_model(choice.capacity, **sharded)]
    assert 10 ** np.array(largest.get_xdata()) == pytest.approx(expected)
    assert 10 ** np.array(solid.get_ydata()) == pytest.approx([16e7, 16e13])
    assert 10 ** np.array(dashed.get_ydata()) == pytest.approx([16e7 / 64, 16e13 / 64])


def test_the_lines_pass_through_the_state_of_the_choice_and_cross_the_card_at_the_largest_model():
    choice = Choice(zero_stage=1, ranks=16)
    plane, _ = artists(choice)
    card, solid, dashed, largest, *_ = moving(plane)
    for line, needed, crossing in zip((solid, dashed), need(choice), largest.get_xdata(), strict=True):
        height = np.interp(math.log10(choice.parameters), line.get_xdata(), line.get_ydata())
        assert 10**height == pytest.approx(needed.state, rel=1e-6)
        assert np.interp(crossing, line.get_xdata(), line.get_ydata()) == pytest.approx(card.get_ydata()[0])


@pytest.mark.parametrize("choice, markers", [
    (Choice(), "oo"), (LARGEST, "^^"), (SMALLEST, "oo"), (replace(SMALLEST, sequence=1), "ov"),
])  # fmt: skip
def test_what_lies_beyond_the_axis_becomes_an_arrow_at_its_edge(choice, markers):
    plane, _ = artists(choice)
    low, high = plane.get_ylim()
    for needed, mark, marker in zip(need(choice), moving(plane)[-2:], markers, strict=True):
        edge = {"^": high, "v": low, "o": math.log10(needed.total)}[marker]
        assert (mark.get_marker(), mark.get_ydata()[0]) == (marker, edge)


def test_measured_points_stand_on_the_same_axes():
    plane, _ = artists(Choice(), POINTS)
    crosses = [line for line in plane.lines if line.get_marker() == "x"]
    places = [tuple(10 ** line.get_xydata()[0]) for line in crosses]
    assert places == [pytest.approx(point[:2]) for point in POINTS]
    assert {point[2] for point in POINTS} <= {text.get_text() for text in plane.texts}


@pytest.mark.parametrize("parameters, above", [(7 * 10**9, True), (10**7, False), (10**13, True)])
def test_a_points_label_keeps_clear_of_the_line_it_lies_on_and_of_the_edge(parameters, above):
    plane, _ = artists(Choice(), [(parameters, 16 * parameters, "a model, measured")])
    (label,) = [text for text in plane.texts if text.get_text() == "a model, measured"]
    box = label.get_window_extent()
    left, right = (math.log10(16) + plane.transData.inverted().transform((x, 0))[0] for x in (box.x0, box.x1))
    low, high = (plane.transData.transform((0, height))[1] for height in (left, right))
    assert box.y0 > high if above else box.y1 < low
    assert plane.bbox.x0 <= box.x0 and box.x1 <= plane.figure.bbox.x1


@pytest.mark.parametrize("point", [(0, 1, "x"), (1, -1, "x"), (1, math.nan, "x")])
def test_a_point_that_can_not_be_drawn_is_refused(point):
    with pytest.raises(ValueError, match="expected parameters and bytes above 0"):
        memory_wall.figure(Choice(), [point])


def test_colors_are_the_palettes():
    _, bars = artists(Choice())
    names = ["weights", "gradients", "weights", "optimizer state", "activations"]
    assert [to_hex(patch.get_facecolor()).upper() for patch in bars.patches] == 2 * [COLORS[n] for n in names]
    assert [bool(patch.get_hatch()) for patch in bars.patches] == 2 * [False, False, True, False, False]


def shown_texts(figure):
    """Each text that is seen, but for the legends', and each legend: what it says, and its box in pixels."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels(),
                     *axes.get_yticklabels()):  # fmt: skip
            if text.get_text() and text.get_visible():
                yield text.get_text(), text.get_window_extent()
    for legend in figure.legends:
        yield legend.get_texts()[0].get_text(), legend.get_window_extent()


def drawn(line):
    """Points of what is seen of a line or of its marks, one each pixel, and how far the ink reaches."""
    axes, corners = line.axes, line.get_transform().transform(line.get_xydata())
    pairs = itertools.pairwise(corners) if line.get_linestyle() != "None" else ()
    points = np.concatenate([corners, *(np.linspace(*ends, 1000) for ends in pairs)])
    if line.get_clip_on():
        inside = (points >= axes.bbox.min) & (points <= axes.bbox.max)
        points = points[inside.all(axis=1)]
    marked = line.get_marker() in ("o", "x", "D", "^", "v")
    return points, (line.get_markersize() if marked else line.get_linewidth()) / 2 * axes.figure.dpi / 72


def assert_nothing_collides(figure):
    texts, page = list(shown_texts(figure)), figure.bbox
    lines = [drawn(line) for axes in figure.axes for line in axes.lines]
    for text, box in texts:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text
        assert not any(box.padded(reach).count_contains(points) for points, reach in lines), text
    for (one, a), (other, b) in itertools.combinations(texts, 2):
        assert not a.overlaps(b), (one, other)


@settings(max_examples=30, deadline=None)
@given(choices())
def test_texts_stay_on_the_picture_and_nothing_runs_through_them(choice):
    assert_nothing_collides(memory_wall.figure(choice, POINTS))


@pytest.mark.parametrize("recipe", ["bf16-adam", "mixed-adam-fp32-grad-copy"])  # the least and the most
@pytest.mark.parametrize("card", CARDS)
def test_each_card_and_recipe_leaves_the_measured_points_their_names(card, recipe):
    figure = memory_wall.figure(Choice(card=card, recipe=recipe, zero_stage=3), POINTS)
    assert_nothing_collides(figure)
    assert {"Llama-2-7B", "GPT-2"} <= {text for text, _ in shown_texts(figure)}


def test_a_name_makes_way_for_what_moves_over_it():
    drawing = Drawing(POINTS)
    for micro_batch, seen in ((1, True), (64, False), (1, True)):
        drawing.show(Choice(4 * 10**9, BY_PARAMETERS, micro_batch=micro_batch))
        assert ("Llama-2-7B" in dict(shown_texts(drawing.figure))) == seen


@pytest.fixture(scope="module")
def fast():
    """One drawing that goes from choice to choice, as behind the sliders."""
    drawing = Drawing(POINTS)
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@settings(max_examples=12, deadline=None)
@given(choice=choices())
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, memory_wall.figure(choice, POINTS))


@pytest.mark.parametrize("choice", [Choice(), SMALLEST, LARGEST, replace(ZERO_PAPER, zero_stage=3)])
def test_the_fast_picture_is_the_full_one_at_the_ends(fast, choice):
    assert_same_pixels(fast, choice, memory_wall.figure(choice, POINTS))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.memory_wall import Choice, figure\nfigure(Choice())"
    )


def test_the_figure_says_in_words_what_it_shows():
    data, _ = memory_wall.figure(Choice())._repr_mimebundle_()
    assert data["text/plain"] == (
        "Bytes on each GPU for 6,738,415,616 parameters with mixed-adam, against the memory of H100 SXM: "
        "one GPU alone, and each of 8 GPUs."
    )


# --- the sliders ---


@pytest.fixture(scope="module")
def explorer():
    return memory_wall.explorer(POINTS)


@pytest.mark.parametrize("start", [
    Choice(CONFIGS["gpt-2-xl"].parameters, "gpt-2-xl", card="t4", micro_batch=2),
    Choice(7_000_000_001, BY_PARAMETERS, zero_stage=3),
])  # fmt: skip
def test_it_begins_with_the_choice_it_is_given(start):
    assert memory_wall.explorer(start=start).choice == start


def test_a_known_shape_sets_p_exactly(explorer, controls):
    controls["shape"].value = "llama-2-70b"
    assert explorer.choice.parameters == 68_976_648_192
    assert (controls["parameters"].value, controls["parameters"].label) == (68_976_648_192, "68.98 B")
    assert "68,976,648,192 parameters, llama-2-70b: 80 layers" in explorer.numbers.value


def test_another_p_is_no_longer_that_shape(explorer, controls):
    controls["parameters"].label = "7.08 B"
    assert explorer.choice == Choice(7_080_000_000, BY_PARAMETERS)
    assert controls["shape"].value == BY_PARAMETERS
    assert "7,080,000,000 parameters, GPT-3's proportions" in explorer.numbers.value


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_value_of_each_control_can_be_shown(explorer, controls, name):
    options = controls[name].options
    for option in options[:: len(options) // 20 or 1]:
        value = option[1] if isinstance(option, tuple) else option
        controls[name].value = value
        assert getattr(explorer.choice, name) == value
        for needed in need(explorer.choice):
            assert f">{needed.total:,}<" in explorer.numbers.value


def test_p_goes_evenly_from_10_million_to_10_trillion_and_stops_at_each_known_model(controls):
    stops = [stop for _, stop in controls["parameters"].options]
    known = {config.parameters for config in CONFIGS.values()}
    even = [stop for stop in stops if stop not in known]
    assert (even[0], even[-1]) == (10**7, 10**13)
    assert np.diff(np.log10(even)) == pytest.approx(1 / 20, abs=0.005)
    assert known < set(stops)
    assert len({label for label, _ in controls["parameters"].options}) == len(stops)


def test_cards_are_those_whose_drivers_number_is_known(controls):
    names = [name for _, name in controls["card"].options]
    assert names == [name for name, card in ACCELERATORS.items() if card.memory_bytes]


@pytest.mark.parametrize("change, note", [
    ({"card": "t4"}, "T4 has no bf16: fp16 takes as many bytes, and needs loss scaling."),
    ({"card": "h100-sxm"}, ""),
    ({"card": "a10g"}, ""),  # its bf16 speed is only not known
    ({"shape": "gpt-2-xl", "parameters": 1_557_611_200}, "gpt-2-xl itself has positions for 1,024 tokens"),
])  # fmt: skip
def test_what_else_should_be_known_is_said(change, note):
    notes = memory_wall.readout(Choice(**change)).notes
    assert len(notes) == (4 if note else 3)
    assert notes[-1].startswith(note)


def test_the_total_is_said_to_be_an_upper_bound_and_what_comes_on_top_with_full_recomputation():
    bound = "The total is an upper bound: gradients and activations are rarely all alive at once."
    assert memory_wall.readout(Choice()).notes[2] == bound
    layer = layer_terms(CONFIGS["llama-2-7b"], 1, 2048, attention="fused")
    assert memory_wall.readout(Choice(recompute="full")).notes[2] == (
        f"{bound} But backward's one layer, computed again, comes on top: {size(sum(layer.values()))}."
    )


def test_the_text_in_a_stored_notebook_is_the_same_at_every_run(explorer):
    texts = [each._repr_mimebundle_()[0]["text/plain"] for each in (explorer, memory_wall.explorer())]
    assert texts[0] == texts[1]
    assert "107,814,649,856" not in texts[0] and f"{need(Choice())[0].total:,}" in texts[0]
    assert " at 0x" not in texts[0]
