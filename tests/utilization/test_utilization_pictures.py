"""The waterfall shows the parts that it was given, each beginning where the last one ends."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb

from course_lib.palette import COLORS
from course_lib.utilization import Parts
from course_lib.utilization_pictures import waterfall

PARTS = Parts(100e9, 50e9, step=1.25, compute=0.8, exposed=0.2, optimizer=0.1, data=0.05, idle=0.06)
OVERLAPPING = Parts(100e9, 20e9, step=0.25, compute=0.21, exposed=0.03, optimizer=0.02, data=2e-4, idle=4e-3)
BELOW_ZERO = Parts(1e12, 5e10, step=0.2, compute=0.18, exposed=0.08, optimizer=0.05, data=1e-3, idle=0.03)
ABOVE_PEAK = Parts(100e9, 50e9, step=0.6, compute=0.4, exposed=0, optimizer=0, data=0, idle=0)


@pytest.mark.parametrize("parts", [PARTS, OVERLAPPING, BELOW_ZERO, ABOVE_PEAK])
def test_bars_go_down_from_the_peak_to_u(parts):
    (axes,) = waterfall(parts, "Measured here").axes
    bars = [sorted((bar.get_x(), bar.get_x() + bar.get_width())) for bar in axes.patches]
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    peak, *falls, achieved = axes.patches
    assert peak.get_width() == 1 and bars[-1] == pytest.approx([0, parts.utilization])
    assert [bar.get_width() for bar in falls] == pytest.approx(list(parts.shares().values())[:-1])
    assert names == ["peak", *list(parts.shares())[:-1], "achieved: U"]
    assert falls[0].get_x() + falls[0].get_width() == pytest.approx(1)
    for above, below in pairwise(falls):
        assert above.get_x() == pytest.approx(below.get_x() + below.get_width())
    assert falls[-1].get_x() == pytest.approx(parts.utilization)
    least, most = axes.get_xlim()
    assert all(least - 1e-9 <= left and right <= most + 1e-9 for left, right in bars)


@pytest.mark.parametrize("parts", [PARTS, OVERLAPPING, BELOW_ZERO])
def test_each_bar_is_seen_however_thin(parts):
    figure = waterfall(parts, "Measured here")
    FigureCanvasAgg(figure).draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int)
    (axes,) = figure.axes
    for bar in axes.patches[3:6]:  # exposed communication, optimizer, data: those of one color
        bottom, top = (round(y) for y in bar.get_window_extent().intervaly)
        row = pixels[len(pixels) - top + 2 : len(pixels) - bottom - 2]
        near = np.abs(row - 255 * np.array(to_rgb(bar.get_facecolor()))).max(axis=-1) < 60
        assert near.any(axis=1).all(), bar


def test_colors_are_those_of_all_lessons():
    (axes,) = waterfall(PARTS, "Measured here").axes
    colors = [to_hex(bar.get_facecolor()).upper() for bar in axes.patches]
    assert colors[3:5] + [colors[6], colors[8]] == [
        COLORS[kind] for kind in ("communication", "optimizer state", "idle", "compute")]  # fmt: skip


def test_numbers_stand_beside_the_bars():
    (axes,) = waterfall(PARTS, "Measured here").axes
    texts = [text.get_text() for text in axes.texts]
    assert texts[:2] == ["100.0%, 1.25 s", "24.0%, 300 ms"]
    assert texts[-1] == "40.0%, 500 ms"
    (axes,) = waterfall(OVERLAPPING, "Measured here").axes
    assert "−5.7%, −14.2 ms" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("parts", [PARTS, OVERLAPPING, BELOW_ZERO, ABOVE_PEAK])
def test_texts_do_not_collide(parts):
    setting = "2 ranks, 400 Mbit/s links with 20 ms latency, buckets of 0.5 MiB, not overlapped"
    figure = waterfall(parts, f"{setting}\nrecorded on AMD EPYC, 2 cores, 24 GiB, Linux, 2026-11-30")
    assert "not overlapped, recorded on" in figure.description
    figure.draw_without_rendering()
    (axes,) = figure.axes
    artists = [*axes.texts, *axes.get_yticklabels(), axes.title, axes.xaxis.label]
    boxes = [artist.get_window_extent() for artist in artists]
    page = figure.bbox.padded(1)
    for i, box in enumerate(boxes):
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
    assert not any(box.overlaps(axes.get_window_extent().padded(-1)) for box in boxes[: len(axes.texts)])


def test_the_description_holds_no_measured_number():
    assert waterfall(PARTS, "Here").description == waterfall(OVERLAPPING, "Here").description
