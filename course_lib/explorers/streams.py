"""Explorer of lesson 07: two CUDA streams, line by line of the host's program, and what races.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the controls around it.  Both
show what ``streams`` computes from the rules of CUDA streams; nothing here was run on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import ipywidgets as widgets
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from course_lib.arguments import number, true_or_false, whole_number
from course_lib.explorers.bars import Bar, Bars, TimeAxis, corners
from course_lib.explorers.fast_canvas import layer_on_top
from course_lib.explorers.widget import Explorer, Readout
from course_lib.palette import color_of
from course_lib.pictures import Looks, Picture
from course_lib.ring_drawing import FONT, WIDTH, Texts, sheet, text_width
from course_lib.streams import Command, Launch, Race, Record, Run, Wait, races, schedule

_MAIN, _COMM = "main", "comm"
_HOST_SECONDS = 8e-6  # that the host needs for a line
LINES = 9


@dataclass(frozen=True)
class Choice:
    """Where the controls stand: ``line``, how many lines the host has run, and which of them are there.

    ``wait_ready``: the reduction waits for the copy.  ``record``: the memory is kept until the reduction is
    over.  ``wait_done``: the optimizer waits for the reduction.  Raises ValueError for a line that there
    isn't.
    """

    line: int = LINES
    wait_ready: bool = True
    record: bool = True
    wait_done: bool = True

    def __post_init__(self) -> None:
        number("line", whole_number("line", self.line, least=0), least=0, most=LINES)
        for name in ("wait_ready", "record", "wait_done"):
            true_or_false(name, getattr(self, name))


class Line(NamedTuple):
    """A line of the host's program, what it puts into streams, and whether it is there."""

    text: str
    commands: tuple[Command, ...] = ()
    is_there: bool = True


def program(choice: Choice) -> list[Line]:
    """What the host runs: gradients are cast into a bucket, which is reduced beside the backward pass.

    The allocator hands memory that is free to the next tensor of the stream that it belongs to, at once,
    since that stream is in order.  It does not know of other streams, unless record_stream tells it.
    """
    reused = "other memory" if choice.record else "bucket"
    return [
        Line("bucket = gradient.bfloat16()",
             (Launch("cast", _MAIN, ("gradient",), ("bucket",), 50e-6),)),
        Line("ready = main.record_event()", (Record(_MAIN, "ready"),)),
        Line("comm.wait_event(ready)", (Wait(_COMM, "ready"),), choice.wait_ready),
        Line("with stream(comm): all_reduce(bucket); gradient.copy_(bucket)",
             (Launch("all-reduce", _COMM, ("bucket",), ("bucket",), 90e-6),
              Launch("copy", _COMM, ("bucket",), ("gradient",), 30e-6))),
        Line("done = comm.record_event()", (Record(_COMM, "done"),)),
        Line("bucket.record_stream(comm)", (), choice.record),
        Line("del bucket; other = backward_of_the_next_layer()",
             (Launch("next layer", _MAIN, (), (reused,), 60e-6),)),
        Line("main.wait_event(done)", (Wait(_MAIN, "done"),), choice.wait_done),
        Line("optimizer.step()", (Launch("optimizer", _MAIN, ("gradient",), (), 50e-6),)),
    ]  # fmt: skip


def commands(choice: Choice) -> list[Command]:
    """What the streams have got so far."""
    return [each for line in program(choice)[: choice.line] if line.is_there for each in line.commands]


@lru_cache
def runs(choice: Choice) -> list[Run]:
    return schedule(commands(choice), _HOST_SECONDS)


def sentence(race: Race) -> str:
    """What may go wrong."""
    first, second = race.first.name, race.second.name
    where = "memory that was the bucket's" if race.memory == "bucket" and second == "next layer" else (
        f"the {race.memory}")  # fmt: skip
    if race.memory in race.first.writes and race.memory in race.second.reads:
        return f"Race: {second} may read {where} before {first} has written it, or half of it."
    return f"Race: {second} may write into {where} while {first} still needs it."


# --- the picture ---

_HEIGHT = 4.7  # inches, as are all lengths below
_LEFT, _RIGHT = 0.75, WIDTH - 0.35
_CODE, _CODE_TOP, _CODE_ROW = 0.42, 0.2, 0.23
_ROW = 0.36
_ROWS = {_MAIN: 2.4, _COMM: 3.0}
_AXIS, _VERDICT = 3.56, 4.02
_END = 300e-6  # seconds, of the time axis
_VEIL: Looks = {"facecolor": (1, 1, 1, 0.54), "linewidth": 0}
_COLORS = {"cast": color_of("compute"), "next layer": color_of("compute"), "copy": color_of("communication"),
           "all-reduce": color_of("communication"), "optimizer": color_of("optimizer state")}  # fmt: skip
_KEY = {"compute": "compute", "communication": "communication", "optimizer state": "optimizer"}
_EVENTS = {"ready": ("cast", "all-reduce"), "done": ("copy", "optimizer")}  # after what, and what waits
_WAIT: Looks = {"color": "black", "linewidth": 1.2, "marker": "o", "markersize": 4, "markevery": [-1]}
_RACING: Looks = {"facecolor": "none", "edgecolor": "black", "linewidth": 2.2}


def figure(choice: Choice) -> Picture:
    """Draw the program with the lines that have run, and below it both streams over time.

    Arrows are waits for events; operations that race have a thick frame.
    """
    drawing = Drawing()
    drawing.show(choice)
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self) -> None:
        self.figure, axes = sheet(_HEIGHT)
        for stream, top in _ROWS.items():
            axes.text(_LEFT - 0.1, top + _ROW / 2, stream, ha="right", va="center", fontsize=FONT)
        for place, line in enumerate(program(Choice())):
            axes.text(_CODE, _line_height(place), line.text, va="center", fontsize=FONT, family="monospace")
        # What has not run lies behind a veil, since the lines themselves take too long to be drawn again.
        self._veils, self._marks = axes.add_collection(PolyCollection([], **_VEIL)), Texts(axes)
        self._bars, self._races = Bars(axes), axes.add_collection(PolyCollection([], **_RACING))
        self._waits = [axes.plot([], [], **_WAIT)[0] for _ in _EVENTS]
        self._events, self._verdict = Texts(axes), axes.text(0.1, _VERDICT, "", va="center", fontsize=FONT)
        self._scale = TimeAxis(axes, _LEFT, _RIGHT, _AXIS).show(_END)
        self.changing = layer_on_top([*self._bars.changing, self._races, *self._waits, self._events.artist,
                                      self._veils, self._marks.artist, self._verdict])  # fmt: skip
        _draw_key(self.figure)

    def show(self, choice: Choice) -> None:
        self._show_code(choice)
        boxes = {run.operation: self._box(run) for run in runs(choice)}
        self._bars.show(boxes.values())
        racing = {operation for race in races(commands(choice)) for operation in race[:2]}
        self._races.set(verts=[corners(boxes[operation]) for operation in racing])
        self._show_waits(choice)
        self._verdict.set_text(verdict(choice))
        self.figure.description = description(choice)

    def _show_code(self, choice: Choice) -> None:
        """Lines that are left out are comments; an arrow points to the last one that has run."""
        lines = list(enumerate(program(choice)))
        veiled = [place for place, line in lines if place >= choice.line or not line.is_there]
        tops = [_line_height(place) - _CODE_ROW / 2 for place in veiled]
        self._veils.set(verts=[corners(Bar(_CODE, WIDTH - _CODE, top, _CODE_ROW, "white")) for top in tops])
        comments = [("#", _CODE - 0.09, _line_height(place)) for place, line in lines if not line.is_there]
        arrow = [("▶", _CODE - 0.26, _line_height(choice.line - 1))] if choice.line else []
        self._marks.show(comments + arrow)

    def _box(self, run: Run) -> Bar:
        operation = run.operation
        return Bar(_LEFT + self._scale * run.start, self._scale * (run.end - run.start),
                   _ROWS[operation.stream], _ROW, _COLORS[operation.name], operation.name)  # fmt: skip

    def _show_waits(self, choice: Choice) -> None:
        """An arrow for each event from the operation that it comes after to the one that waits for it."""
        by_name = {run.operation.name: run for run in runs(choice)}
        waited = {command.event for command in commands(choice) if isinstance(command, Wait)}
        texts = []
        for line, (event, (before, after)) in zip(self._waits, _EVENTS.items(), strict=True):
            shown = event in waited and after in by_name
            line.set_visible(shown)
            if shown:
                ends = [_LEFT + self._scale * each for each in (by_name[before].end, by_name[after].start)]
                down = _ROWS[by_name[before].operation.stream] == _ROWS[_MAIN]
                heights = [_ROWS[_MAIN] + _ROW, _ROWS[_COMM]]
                line.set_data(ends, heights if down else heights[::-1])
                texts.append((event, ends[1] + 0.1 + text_width(event) / 2, sum(heights) / 2))
        self._events.show(texts)


def _line_height(line: int) -> float:
    return _CODE_TOP + _CODE_ROW * line


def _draw_key(drawing: Picture) -> None:
    handles = [
        *(Patch(facecolor=color_of(kind), label=name) for kind, name in _KEY.items()),
        Line2D([], [], label="waits for an event", **_WAIT),
        Patch(label="races", **_RACING),
    ]
    drawing.legend(handles=handles, loc="lower left", ncols=len(handles), frameon=False, fontsize=FONT,
                   columnspacing=1.4, handlelength=1.5, handletextpad=0.6)  # fmt: skip


def verdict(choice: Choice) -> str:
    """The first race in a sentence, and how many more there are."""
    found = [sentence(race) for race in races(commands(choice))]
    if not found:
        return "No race so far." if choice.line < LINES else "No race."
    return found[0] + (f" And {len(found) - 1} more." if len(found) > 1 else "")


def description(choice: Choice) -> str:
    """What the picture shows, in a sentence for those who can't see it; the numbers stand beside it."""
    return (
        f"A program of {LINES} lines, of which {choice.line} have run, and below it what two CUDA streams do "
        f"over time, computed. {verdict(choice)}"
    )


# --- the numbers beside it ---


def readout(choice: Choice) -> Readout:
    """The picture in numbers: a row for each operation, and a sentence for each race."""
    rows = [
        (run.operation.name, run.operation.stream, ", ".join(run.operation.reads) or "–",
         ", ".join(run.operation.writes) or "–", *(f"{1e6 * moment:.0f} µs" for moment in run[1:]))
        for run in runs(choice)
    ]  # fmt: skip
    found = [sentence(race) for race in races(commands(choice))] or [verdict(choice)]
    how = (
        "Computed by the rules of CUDA streams, not run on a GPU. The durations are chosen; whether there is "
        "a race does not depend on them, and a race may go right a thousand times."
    )
    return Readout([("", "stream", "reads", "writes", "starts", "ends"), *rows], [*found, how])


# --- the controls ---


def explorer(start: Choice = Choice()) -> Explorer:  # noqa: B008 (frozen)
    """The explorer as a widget."""
    line = widgets.IntSlider(start.line, 0, LINES, description="lines that have run")
    line.style.description_width = "11em"
    boxes = {name: widgets.Checkbox(getattr(start, name), description=text, indent=False)
             for name, text in _BOXES.items()}  # fmt: skip
    for control in (line, *boxes.values()):
        control.layout.width = "auto"
    return Explorer(Drawing(), {"line": line, **boxes}, Choice, readout)


_BOXES = {
    "wait_ready": "comm waits for the cast: comm.wait_event(ready)",
    "record": "the allocator is told: bucket.record_stream(comm)",
    "wait_done": "main waits for comm: main.wait_event(done)",
}
