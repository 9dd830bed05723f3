"""Figures of steps: lanes, passes, names that fit.  (Of plain spans: tests/lessons/test_timeline.py.)"""

import pytest
from matplotlib.colors import to_hex

from course_lib import timeline
from course_lib.palette import COLORS
from course_lib.timeline import Span


def step(ranks=2, layers=4, buckets=3, micro_batches=1, layer_seconds=0.01):
    return [span for rank in range(ranks)
            for span in one_rank(rank, layers, buckets, micro_batches, layer_seconds)]  # fmt: skip


def one_rank(rank, layers, buckets, micro_batches, seconds):
    now, spans = 0.001 * rank, []
    for _ in range(micro_batches):
        ways = ("forward", range(layers)), ("backward", reversed(range(layers)))
        for way, names in ways:
            for name in names:
                spans.append(Span(rank, "compute", f"{way} layers.{name}", now, now + seconds))
                now += seconds
    free = now - layers * seconds / 2
    for bucket in range(buckets):
        spans.append(Span(rank, "communication", f"bucket {bucket}", free, free + seconds, "communication"))
        free += seconds
    spans.append(Span(rank, "idle", "wait", now, max(now, free)))
    return [*spans, Span(rank, "optimizer state", "optimizer", max(now, free), max(now, free) + seconds)]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def rows_of(figure, color):
    return {round(bar.get_y() + bar.get_height() / 2, 6) for bar in figure.axes[0].patches
            if bar.get_fill() and to_hex(bar.get_facecolor()).upper() == color}  # fmt: skip


def test_communication_beside_computing_has_a_row_of_its_own_below():
    figure = timeline.figure(step(), "Simulated")
    (axes,) = figure.axes
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names == ["rank 0", "communication", "rank 1", "communication"]
    at = [round(tick, 6) for tick in axes.get_yticks()]
    assert at == sorted(at)
    assert rows_of(figure, COLORS["compute"]) == {at[0], at[2]}
    assert rows_of(figure, COLORS["communication"]) == {at[1], at[3]}
    assert rows_of(figure, COLORS["optimizer state"]) == {at[0], at[2]}
    assert "communication in a row of its own" in figure.description


def test_reductions_that_are_under_way_at_once_do_not_hide_one_another():
    spans = [Span(0, "compute", "", 0, 9)]
    spans += [Span(0, "communication", f"bucket {i}", i, i + 1.5, "communication") for i in range(4)]
    assert len(rows_of(timeline.figure(spans, "Simulated"), COLORS["communication"])) == 2


def test_passes_are_named_over_their_layers_micro_batch_by_micro_batch():
    figure = timeline.figure(step(ranks=1, micro_batches=3), "Simulated")
    assert [text for text in texts(figure) if text in ("forward", "backward")] == 3 * ["forward", "backward"]
    (axes,) = figure.axes
    ends = [tuple(line.get_xdata()) for line in axes.lines]
    assert ends == [pytest.approx((40 * i, 40 * i + 40)) for i in range(6)]


def test_names_are_as_long_as_their_bars_allow():
    assert {"layers.0", "bucket 0"} <= set(texts(timeline.figure(step(ranks=1, layers=2, buckets=1), "")))
    crowded = texts(timeline.figure(step(ranks=1, layers=12, buckets=10), ""))
    assert {"0", "11"} <= set(crowded) and "layers.0" not in crowded and "bucket 0" not in crowded


def test_equal_bars_are_named_alike():
    """A 1 takes less ink than a 4, and must not be named alone."""
    for micro_batches in range(1, 6):
        shown = texts(timeline.figure(step(ranks=1, layers=9, buckets=0, micro_batches=micro_batches), ""))
        assert len([text for text in shown if text in set("012345678")]) in (0, 18 * micro_batches)


@pytest.mark.parametrize("sizes", [
    {}, {"ranks": 4, "layers": 12, "buckets": 10}, {"micro_batches": 4}, {"layer_seconds": 1e-6},
    {"ranks": 8, "layers": 30, "buckets": 40}])  # fmt: skip
def test_texts_stay_in_their_places(sizes):
    figure = timeline.figure(step(**sizes), "Measured in this run")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    inside = axes.get_window_extent().padded(1)
    boxes = [text.get_window_extent() for text in axes.texts]
    for box in boxes:
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
    page = figure.bbox.padded(1)
    for artist in (*figure.legends, axes.xaxis.label, axes.title, *axes.get_yticklabels()):
        box = artist.get_window_extent()
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
