"""The pictures of lesson 04 show the numbers that they were given, and their words do not collide."""

import re
import subprocess
import sys
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from course_lib import cost_model, cost_pictures

MIB = 2**20
RECORDED = "paced in software, recorded on AMD EPYC, 2 cores, 24 GiB, Linux, 2026-11-30"  # where it is busy
TENSORS = {
    "star": lambda ranks: 2 * (ranks - 1),
    "unchunked-ring": lambda ranks: ranks - 1,
    "ring": lambda ranks: 2 * (ranks - 1) / ranks,
}
COUNTED = {name: {ranks: tensors(ranks) for ranks in (2, 4, 8, 16)} for name, tensors in TENSORS.items()}
LIMITS = {ranks: cost_model.limit_seconds(8 * MIB, ranks, 50e6) for ranks in (2, 4, 8)}
SECONDS = {
    (name, ranks): factor * cost_model.all_reduce_seconds(algorithm, 8 * MIB, ranks, 0, 50e6)
    for ranks in LIMITS
    for name, algorithm, factor in [("star", "star", 1.006), ("unchunked-ring", "unchunked-ring", 1.09),
                                    ("ring", "ring", 1.06), ("torch's own", "ring", 1.04)]
}  # fmt: skip
MEASURED = {
    "400 Mbit/s links": {size * MIB: cost_model.all_reduce_seconds("ring", size * MIB, 4, 1e-3, 50e6)
                         for size in (1, 2, 4, 8, 16)},
    f"400 Mbit/s links with 20 ms latency, {RECORDED}": {
        size * MIB // 4: cost_model.all_reduce_seconds("ring", size * MIB // 4, 4, 4e-2, 50e6)
        for size in (1, 4, 16, 64)},
}  # fmt: skip
FITS = {label: cost_model.fit("ring", list(points), list(points.values()), 4)
        for label, points in MEASURED.items()}  # fmt: skip
FIGURES = {
    "bytes": lambda: cost_pictures.bytes_on_a_link(COUNTED),
    "limit": lambda: cost_pictures.beside_the_limit(SECONDS, LIMITS, f"8 MiB, 400 Mbit/s links, {RECORDED}"),
    "fitted": lambda: cost_pictures.fitted(MEASURED, FITS, 4, "4 ranks, measured here"),
}


def lines(axes):
    return [list(zip(*line.get_data(), strict=True)) for line in axes.lines]


def test_counted_points_lie_on_lines_of_the_formulas():
    left, right = cost_pictures.bytes_on_a_link(COUNTED).axes
    for name, points in COUNTED.items():
        assert list(points.items()) in lines(left)
        assert [(ranks, TENSORS[name](ranks)) for ranks in range(1, 17)] in [
            [(x, pytest.approx(y)) for x, y in line] for line in lines(left)]  # fmt: skip
    assert list(COUNTED["ring"].items()) in lines(right)
    assert right.get_ylim()[1] > 2


def test_a_count_that_is_wrong_is_seen_off_its_line():
    left, _ = cost_pictures.bytes_on_a_link({"ring": {2: 1.0, 4: 3.0}}).axes
    assert [(2, 1.0), (4, 3.0)] in lines(left)


def test_each_bar_has_its_time_and_its_distance_from_the_limit():
    (axes,) = cost_pictures.beside_the_limit(SECONDS, LIMITS, "title").axes
    assert sorted(bar.get_width() for bar in axes.patches) == pytest.approx(sorted(SECONDS.values()))
    texts = {text.get_text() for text in axes.texts}
    for (_, ranks), time in SECONDS.items():
        assert f"{time:.2f} s, {time / LIMITS[ranks]:.2f} × the limit" in texts
    assert sorted({line.get_xdata()[0] for line in axes.lines}) == pytest.approx(sorted(LIMITS.values()))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["star", "unchunked-ring", "ring", "torch's own"] * 3


def test_a_fit_begins_at_the_time_of_its_messages():
    (axes,) = cost_pictures.fitted(MEASURED, FITS, 4, "title").axes
    starts = [line[0] for line in lines(axes) if line[0][0] == 0]
    assert starts == [(0, pytest.approx(6 * fit.latency)) for fit in FITS.values()]
    for points in MEASURED.values():
        assert [(size / MIB, time) for size, time in points.items()] in lines(axes)


@pytest.mark.parametrize("name", FIGURES)
def test_words_do_not_collide_and_stay_inside(name):
    figure = FIGURES[name]()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in shown]
    assert [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)] == []
    ticks = {label for axes in figure.axes for which in (axes.xaxis, axes.yaxis)
             for label in which.get_ticklabels()}  # fmt: skip
    page = figure.bbox.padded(1)
    outside = [text.get_text() for text, (_, box) in zip(shown, boxes, strict=True)
               if text not in ticks and not (page.contains(*box.min) and page.contains(*box.max))]
    assert outside == []


def test_the_key_of_a_fit_lies_on_no_line():
    figure = cost_pictures.fitted(MEASURED, FITS, 4, "4 ranks, measured here")
    FigureCanvasAgg(figure).draw()
    [key] = figure.legends
    assert not key.get_window_extent().overlaps(figure.axes[0].get_window_extent())


@pytest.mark.parametrize("name", FIGURES)
def test_descriptions_hold_no_measured_number(name):
    """They are the text that a stored notebook is compared by."""
    numbers = re.findall(r"\d+(?:\.\d+)?", FIGURES[name]().description)
    assert [number for number in numbers if "." in number] == []


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="algorithm='tree': expected one of"):
        cost_pictures.bytes_on_a_link({"tree": {2: 2}})
    with pytest.raises(ValueError, match="expected points"):
        cost_pictures.bytes_on_a_link({"ring": {}})
    for limits in ({2: 0.1}, {**LIMITS, 16: 0.3}):
        with pytest.raises(ValueError, match="expected one for each number of ranks"):
            cost_pictures.beside_the_limit(SECONDS, limits, "title")
    with pytest.raises(ValueError, match="expected the labels of measured"):
        cost_pictures.fitted(MEASURED, {}, 4, "title")


def test_the_module_is_quick_to_import():
    code = "import sys, course_lib.cost_pictures; print({'matplotlib', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
