"""The pictures of lesson 01 show the numbers that they were given, and their words do not collide."""

import subprocess
import sys
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from course_lib import memory_pictures

MIB = 2**20
MODELS = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "gpt-3-175b": 174_591_683_584,
}
CARDS = {
    "t4": 15_360 * MIB,
    "rtx-4090": 24_564 * MIB,
    "a100-40gb": 40_960 * MIB,
    "h100-sxm": 81_559 * MIB,
    "h200": 143_771 * MIB,
}
SEQUENCES = [512, 1024, 2048]
FORMULA = {"micro-batch 1": lambda length: 2e6 * length, "bent": lambda length: 4e3 * length**2}
MEASURED = {"micro-batch 1": [1.1e9, 2.1e9, 4.1e9], "bent": [1.2e9, 4.4e9, 16.9e9]}


def lines(figure):
    return [list(zip(*line.get_data(), strict=True)) for line in figure.axes[0].lines]


def texts(figure):
    """Each text that is seen and its box in pixels, after a full drawing."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    return {text.get_text(): text.get_window_extent(canvas.get_renderer()) for text in shown}


def colliding(figure):
    """Pairs of texts that cover each other, and texts that a line or a mark of the axes runs through."""
    boxes = texts(figure)
    pairs = [pair for pair in combinations(boxes, 2) if boxes[pair[0]].overlaps(boxes[pair[1]])]
    return pairs + [(name, line) for name, box in boxes.items() for line in drawn_through(figure, box)]


def drawn_through(figure, box):
    """Labels of the lines with a point in a box, looked at every half pixel."""
    for line in figure.axes[0].lines:
        corners = line.get_transform().transform(line.get_xydata())
        thickness = line.get_markersize() if line.get_marker() != "None" else line.get_linewidth()
        around = box.padded(thickness / 2 * figure.dpi / 72)
        if line.get_linestyle() == "None":
            points = corners
        else:
            points = np.concatenate([np.linspace(*ends, 2000) for ends in pairwise(corners)])
        if around.count_contains(points):
            yield line.get_label()


def test_each_model_stands_on_the_line_and_each_card_at_its_memory():
    figure = memory_pictures.wall(MODELS, CARDS)
    points = {point for line in lines(figure) for point in line}
    for parameters in MODELS.values():
        assert (parameters, 16 * parameters / 1e9) in points
    heights = [line.get_ydata()[0] for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1]
    assert sorted(CARDS.values()) == pytest.approx([height * 1e9 for height in heights[: len(CARDS)]])


def test_what_fits_no_card_has_an_empty_mark():
    figure = memory_pictures.wall(MODELS, CARDS)
    marks = {line.get_label(): line for line in figure.axes[0].lines if line.get_marker() == "o"}
    assert list(marks["fits the largest card"].get_xdata()) == list(MODELS.values())[:3]
    assert list(marks["fits none of these cards"].get_xdata()) == list(MODELS.values())[3:]
    assert marks["fits none of these cards"].get_markerfacecolor() == "white"


def test_another_recipe_moves_the_line():
    figure = memory_pictures.wall({"one": 10**9}, {"card": 20 * 10**9}, bytes_per_parameter=20)
    assert (10**9, 20.0) in {point for line in lines(figure) for point in line}


def test_activations_are_measured_points_beside_the_formulas_curve():
    drawn = lines(memory_pictures.activation_growth(SEQUENCES, FORMULA, MEASURED))
    for (label, formula), curve, points in zip(FORMULA.items(), drawn[::2], drawn[1::2], strict=True):
        assert points == list(zip(SEQUENCES, [number / 1e9 for number in MEASURED[label]], strict=True))
        assert curve == [(length, formula(length) / 1e9) for length, _ in curve]
        assert {length for length, _ in curve} > {*SEQUENCES, 768, 1536}
        assert curve[0][0] == 512 and curve[-1][0] == 2048


@pytest.mark.parametrize(
    "figure",
    [
        lambda: memory_pictures.wall(MODELS, CARDS),
        lambda: memory_pictures.wall({"gpt2": 10**8}, CARDS),
        lambda: memory_pictures.wall({"at the card": 5_000_000_000}, {"card": 80 * 10**9}),
        lambda: memory_pictures.wall({"gpt-3": 175 * 10**9}, CARDS),
        lambda: memory_pictures.activation_growth(SEQUENCES, FORMULA, MEASURED),
    ],
    ids=["wall", "all cards above", "a model on a card's line", "all cards below", "activation_growth"],
)
def test_words_do_not_collide(figure):
    assert colliding(figure()) == []


def test_a_line_through_words_is_noticed():
    figure = memory_pictures.wall(MODELS, CARDS)
    figure.axes[0].plot([10**8, 10**10], [120, 120], label="through llama-2-7b")
    assert colliding(figure) == [("llama-2-7b: 108 GB", "through llama-2-7b")]


def test_a_cards_line_begins_at_the_largest_model_that_fits_it():
    figure = memory_pictures.wall(MODELS, CARDS)
    starts = {line[0] for line in lines(figure)}
    assert {(memory / 16, memory / 1e9) for memory in CARDS.values()} <= starts


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="models={}: expected at least one"):
        memory_pictures.wall({}, CARDS)
    with pytest.raises(ValueError, match=r"cards\['card'\]=0: expected a number above 0"):
        memory_pictures.wall(MODELS, {"card": 0})
    with pytest.raises(ValueError, match=r"models\['m'\]=nan: expected a number above 0"):
        memory_pictures.wall({"m": float("nan")}, CARDS)
    with pytest.raises(ValueError, match="expected the labels of formula"):
        memory_pictures.activation_growth(SEQUENCES, FORMULA, {"bent": [1, 2, 3]})
    with pytest.raises(ValueError, match="'a': expected one number for each of 3 sequence lengths"):
        memory_pictures.activation_growth(SEQUENCES, {"a": FORMULA["bent"]}, {"a": [1, 2]})


def test_the_module_is_quick_to_import():
    code = "import sys, course_lib.memory_pictures; print({'matplotlib', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("number", [0, -1, float("nan"), float("inf"), None, "7", True])
def test_numbers_that_make_no_sense(number):
    for arguments in (({"a": number}, {"c": 1}), ({"a": 1}, {"c": number}), ({"a": 1}, {"c": 1}, number)):
        with pytest.raises(ValueError, match="expected a number above 0"):
            memory_pictures.wall(*arguments)
    with pytest.raises(ValueError, match="sequences=.*expected a positive whole number"):
        memory_pictures.activation_growth([number], {"a": FORMULA["bent"]}, {"a": [1]})
