"""Figures of steps: lanes, passes, names that fit.  (Of plain spans: tests/lessons/test_timeline.py.)"""

from dataclasses import replace

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
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts][0] == "optimizer"
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


def test_a_row_has_long_names_or_short_ones():
    """Where the forward pass has room for "3" only, the backward pass, which takes longer, says "3", too."""
    passes = [Span(0, "compute", f"forward layers.{layer}", layer, layer + 1) for layer in range(4)]
    passes += [Span(0, "compute", f"backward layers.{3 - i}", 4 + 6 * i, 10 + 6 * i) for i in range(4)]
    assert "layers.3" in texts(timeline.figure(passes[4:], ""))
    shown = [text for text in texts(timeline.figure(passes, "")) if text not in ("forward", "backward")]
    assert sorted(shown) == sorted(2 * ["0", "1", "2", "3"])


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


# --- several runs, one below the other ---


def later(spans, seconds):
    return [replace(span, start=span.start + seconds, end=span.end + seconds) for span in spans]


def test_runs_stand_below_one_another_each_from_its_own_beginning():
    runs = {"one bucket": later(step(buckets=1), 3), "three": step(), "none": step(buckets=0)}
    figure = timeline.comparison(runs, "Simulated", rank=1)
    (axes,) = figure.axes
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names == ["one bucket", "communication", "three", "communication", "none"]
    assert [min(bar.get_x() for bar in axes.patches if round(bar.get_y() + bar.get_height() / 2, 6) == at)
            for at in (round(axes.get_yticks()[i], 6) for i in (0, 2, 4))] == pytest.approx([0, 0, 0])
    assert axes.get_xlim()[1] == pytest.approx(1000 * max(
        max(span.end for span in run if span.rank == 1) - min(span.start for span in run if span.rank == 1)
        for run in runs.values()))  # fmt: skip
    assert figure.description.startswith("Timelines of rank 1 in 3 runs, one below the other: Simulated.")


def test_a_figure_of_all_ranks_and_a_comparison_of_one_draw_the_same():
    spans = step(ranks=1)
    alone, compared = timeline.figure(spans, "S"), timeline.comparison({"rank 0": spans}, "S")
    for figure in (alone, compared):
        figure.draw_without_rendering()
    (first,), (second,) = alone.axes, compared.axes
    assert [bar.get_extents().bounds for bar in first.patches] == [
        bar.get_extents().bounds for bar in second.patches]  # fmt: skip


@pytest.mark.parametrize(("runs", "rank", "message"), [
    ({}, 0, "runs={}: expected at least one run"),
    ({"a": step(), "b": step(ranks=1)}, 1, "'b' has none"),
])  # fmt: skip
def test_runs_without_the_rank_are_refused(runs, rank, message):
    with pytest.raises(ValueError, match=message):
        timeline.comparison(runs, "Simulated", rank)


def test_spans_may_come_from_a_generator():
    assert timeline.figure(iter(step()), "S").description == timeline.figure(step(), "S").description
    assert timeline.comparison({"a": iter(step())}, "S").description
