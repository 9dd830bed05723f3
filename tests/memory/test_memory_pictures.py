"""The pictures of lesson 01 show the numbers that they were given, and their words do not collide."""

import subprocess
import sys
from itertools import combinations

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
FORMULA = {"micro-batch 1": [1e9, 2e9, 4e9], "micro-batch 2": [2e9, 4e9, 8e9]}
MEASURED = {"micro-batch 1": [1.1e9, 2.1e9, 4.1e9], "micro-batch 2": [2.1e9, 4.1e9, 8.1e9]}


def lines(figure):
    return [list(zip(*line.get_data(), strict=True)) for line in figure.axes[0].lines]


def colliding(figure):
    """Pairs of texts of the axes that cover each other, after a full drawing."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in shown]
    return [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)]


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


def test_activations_are_points_on_lines():
    figure = memory_pictures.activation_growth(SEQUENCES, FORMULA, MEASURED)
    drawn = lines(figure)
    for label in FORMULA:
        for numbers in (FORMULA[label], MEASURED[label]):
            assert list(zip(SEQUENCES, [number / 1e9 for number in numbers], strict=True)) in drawn


@pytest.mark.parametrize(
    "figure",
    [
        lambda: memory_pictures.wall(MODELS, CARDS),
        lambda: memory_pictures.activation_growth(SEQUENCES, FORMULA, MEASURED),
    ],
    ids=["wall", "activation_growth"],
)
def test_words_do_not_collide(figure):
    assert colliding(figure()) == []


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="models={}: expected at least one"):
        memory_pictures.wall({}, CARDS)
    with pytest.raises(ValueError, match=r"cards\['card'\]=0: expected a number above 0"):
        memory_pictures.wall(MODELS, {"card": 0})
    with pytest.raises(ValueError, match=r"models\['m'\]=nan: expected a number above 0"):
        memory_pictures.wall({"m": float("nan")}, CARDS)
    with pytest.raises(ValueError, match="expected the labels of formula"):
        memory_pictures.activation_growth(SEQUENCES, FORMULA, {"micro-batch 1": [1, 2, 3]})
    with pytest.raises(ValueError, match="'a': expected one number for each of 3 sequence lengths"):
        memory_pictures.activation_growth(SEQUENCES, {"a": [1, 2]}, {"a": [1, 2]})


def test_the_module_is_quick_to_import():
    code = "import sys, course_lib.memory_pictures; print({'matplotlib', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
