"""Spans are recorded inside ranks, and drawn as they are: one row a rank, in the palette's colors."""

import math
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

from course_lib import ranks, timeline
from course_lib.palette import COLORS
from course_lib.timeline import Span

SPANS = [
    Span(0, "compute", "busy", 10.0, 10.5),
    Span(0, "communication", "send", 10.5, 10.5),
    Span(2, "idle", "wait", 10.1, 10.6),
]


def bars(figure, color):
    """(row, left, right) of each filled bar of one color, in data coordinates."""
    (axes,) = figure.axes
    return [
        (bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_x() + bar.get_width())
        for bar in axes.patches
        if bar.get_fill() and to_hex(bar.get_facecolor()).upper() == color
    ]


def labels(figure) -> list[Text]:
    return list(figure.axes[0].texts)


# --- spans ---


def test_a_span_knows_its_length():
    assert SPANS[0].seconds == 0.5


def test_a_span_can_not_end_before_it_starts():
    with pytest.raises(ValueError, match="expected a time not before start=2.0"):
        Span(0, "compute", "", 2.0, 1.0)


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, "1", None, True, 1j])
def test_times_are_finite_numbers(time):
    for times in ({"start": time, "end": 1}, {"start": 0, "end": time}):
        with pytest.raises(ValueError, match="expected a time in seconds, a finite number"):
            Span(0, "compute", "", **times)


@pytest.mark.parametrize("what", [{"rank": -1}, {"rank": "0"}, {"step": 0.5}])
def test_ranks_and_steps_are_counted(what):
    with pytest.raises(ValueError, match="expected a whole number, 0 or more"):
        Span(**{"rank": 0, "kind": "compute", "label": "", "start": 0, "end": 1} | what)


def test_a_span_needs_a_kind_that_has_a_color():
    with pytest.raises(ValueError, match="kind='waiting': expected one of"):
        Span(0, "waiting", "", 0, 1)


# --- the recorder ---


def test_only_ranks_record():
    with pytest.raises(RuntimeError, match=r"Recorder\(\) is for functions that ranks.run calls"):
        timeline.Recorder()


def work_and_send():
    record = timeline.Recorder()
    if dist.get_rank() == 0:
        with record("compute", "work"):
            time.sleep(0.05)
        with record("communication", "send"):
            for other in range(1, dist.get_world_size()):
                dist.send(torch.ones(1), dst=other)
    else:
        with record("idle", "wait"):
            dist.recv(torch.zeros(1), src=0)
    return record.spans


def test_it_records_what_each_rank_does_on_one_clock():
    first, *others = ranks.run(work_and_send, 3)
    assert [(span.rank, span.kind, span.label) for span in first] == [
        (0, "compute", "work"),
        (0, "communication", "send"),
    ]
    assert first[0].seconds >= 0.05
    assert first[1].start >= first[0].end
    assert [[(span.rank, span.kind, span.label) for span in spans] for spans in others] == [
        [(1, "idle", "wait")],
        [(2, "idle", "wait")],
    ]
    # A message can't arrive before it was sent: false if ranks had clocks of their own.
    assert all(wait.end > first[1].start for (wait,) in others)


def raise_in_a_block():
    record = timeline.Recorder()
    try:
        with record("compute", "fails"):
            raise KeyError
    except KeyError:
        return record.spans


def test_a_block_that_raises_is_recorded_and_the_exception_goes_on():
    ((span,),) = ranks.run(raise_in_a_block, 1)
    assert span.label == "fails"


def record_unknown_kind():
    record = timeline.Recorder()
    ran = []
    try:
        with record("sleeping"):
            ran.append(True)
    except ValueError as error:
        return str(error), ran


def test_an_unknown_kind_is_refused_before_the_block_runs():
    ((message, ran),) = ranks.run(record_unknown_kind, 1)
    assert message.startswith("kind='sleeping': expected one of 'weights'")
    assert ran == []


# --- the figure ---


def test_each_span_is_a_bar_in_its_ranks_row_and_its_kinds_color():
    figure = timeline.figure(SPANS, "title")
    assert bars(figure, COLORS["compute"]) == [pytest.approx((0, 0, 500))]
    assert bars(figure, COLORS["communication"]) == [pytest.approx((0, 500, 500))]
    assert bars(figure, COLORS["idle"]) == [pytest.approx((1, 100, 600))]
    assert bars(figure, COLORS["weights"]) == []


def test_rows_are_the_ranks_that_there_are_with_the_lowest_on_top():
    (axes,) = timeline.figure(SPANS, "title").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["rank 0", "rank 2"]
    heights = [axes.transData.transform((0, row))[1] for row in axes.get_yticks()]
    assert heights == sorted(heights, reverse=True)


@pytest.mark.parametrize("stretch, unit, end", [(1, "ms", 600), (10, "s", 6)])
def test_the_time_axis_has_its_unit_and_covers_all_spans(stretch, unit, end):
    spans = [Span(s.rank, s.kind, s.label, stretch * s.start, stretch * s.end) for s in SPANS]
    (axes,) = timeline.figure(spans, "title").axes
    assert axes.get_xlabel() == f"time ({unit})"
    assert axes.get_xlim() == pytest.approx((0, end))


def test_the_title_and_the_kinds_are_said():
    figure = timeline.figure(SPANS, "Simulated: a step")
    assert figure.axes[0].get_title(loc="left") == "Simulated: a step"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["communication", "compute", "idle"]


def test_even_an_empty_span_leaves_a_mark():
    figure = timeline.figure([Span(0, "compute", "", 1.0, 2.0), Span(0, "gradients", "", 1.5, 1.5)], "title")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(int)
    yellow = np.array([int(COLORS["gradients"][start : start + 2], 16) for start in (1, 3, 5)])
    beside = pixels[: int(0.6 * len(pixels))]  # the legend below has the color as well
    assert (abs(beside - yellow).sum(axis=-1) < 60).sum() > 10


times = st.floats(0, 100, allow_nan=False)
any_span = st.builds(
    lambda rank, kind, label, start, length: Span(rank, kind, label, start, start + length),
    st.integers(0, 7),
    st.sampled_from(sorted(COLORS)),
    st.sampled_from(["", "b0", "forward", "a label of some length"]),
    times,
    times,
)


@settings(max_examples=8, deadline=None)
@example([Span(0, kind, kind, 0, 1) for kind in COLORS])
@given(st.lists(any_span, min_size=1, max_size=12))
def test_nothing_leaves_its_place_whatever_the_spans(spans):
    figure = timeline.figure(spans, "Measured in this run")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    inside = axes.get_window_extent().padded(1)
    for label in labels(figure):
        extent = label.get_window_extent()
        assert inside.x0 <= extent.x0 and extent.x1 <= inside.x1
    (legend,) = figure.legends
    page = figure.bbox.padded(1)
    for artist in (legend, axes.xaxis.label, axes.title, *axes.get_yticklabels()):
        extent = artist.get_window_extent()
        assert page.x0 <= extent.x0 and extent.x1 <= page.x1 and page.y0 <= extent.y0 and extent.y1 <= page.y1


@settings(max_examples=8, deadline=None)
@given(st.text("mwW0i", max_size=40), st.floats(0.01, 1))
def test_a_label_is_drawn_only_where_its_bar_can_hold_it(label, length):
    spans = [Span(0, "compute", label, 0, length), Span(1, "idle", "", 0, 1)]
    figure = timeline.figure(spans, "title")
    figure.draw_without_rendering()
    bar = figure.axes[0].patches[0].get_window_extent()
    for text in labels(figure):
        extent = text.get_window_extent()
        assert bar.x0 <= extent.x0 and extent.x1 <= bar.x1


def test_a_label_is_drawn_where_there_is_room():
    assert [text.get_text() for text in labels(timeline.figure(SPANS, "title"))] == ["busy", "wait"]


def test_all_spans_may_be_empty():
    assert timeline.figure([Span(0, "compute", "x", 1.0, 1.0)], "title").axes[0].get_xlim()[1] > 0


def test_no_spans_are_refused():
    with pytest.raises(ValueError, match="expected at least one span"):
        timeline.figure([], "title")


def test_making_a_figure_changes_nothing_else():
    """In a process of its own, since other tests may have imported pyplot."""
    code = (
        "import sys\n"
        "from course_lib.timeline import Span, figure\n"
        "spans = [Span(0, 'idle', 'x', 0, 1)]; copy = list(spans); figure(spans, 'title')\n"
        "print('matplotlib.pyplot' in sys.modules, spans == copy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_recording_does_not_import_matplotlib():
    code = "import sys, course_lib.timeline; print('matplotlib' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# --- in a notebook ---


def test_it_shows_itself_as_a_sharp_picture_with_a_description():
    data, metadata = timeline.figure(SPANS, "Measured in this run")._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    width = int.from_bytes(data["image/png"][16:20], "big")
    assert width == 2 * metadata["image/png"]["width"]
    description = (
        "Timeline, 2 ranks: Measured in this run. Shown: communication, compute, idle."
    )
    assert data["text/plain"] == metadata["image/png"]["alt"] == description


def test_its_description_is_the_same_whatever_the_times():
    faster = [Span(s.rank, s.kind, s.label, s.start / 7, s.end / 7) for s in SPANS]
    assert timeline.figure(SPANS, "title").description == timeline.figure(faster, "title").description
