"""Explorer of lesson 03: the ring all-reduce, step by step: which rank holds whose sums.

``figure`` is a pure function from a Choice to a picture; ``explorer`` makes the sliders around it.  Both show
the states and messages of ``ring_table``, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import ipywidgets as widgets
from matplotlib.collections import PolyCollection

from course_lib import ring_table
from course_lib.arguments import whole_number
from course_lib.explorers.fast_canvas import layer_on_top
from course_lib.explorers.widget import Explorer, Readout
from course_lib.pictures import Looks, Picture
from course_lib.ring_drawing import (
    ARRIVED_COLOR,
    ARRIVED_KEY,
    COMPLETE_KEY,
    FONT,
    HELD_KEY,
    NAMES,
    Cells,
    Layout,
    Texts,
    key,
    sheet,
    text_width,
)

FEWEST, MOST = 2, ring_table.MOST_RANKS


@dataclass(frozen=True)
class Choice:
    """Where the sliders stand: so many ranks, after so many steps; 0 is before the first.

    Raises ValueError for fewer than FEWEST or more than MOST ranks, and for a step that there isn't.
    """

    ranks: int = 4
    step: int = 0

    def __post_init__(self) -> None:
        if not FEWEST <= whole_number("ranks", self.ranks) <= MOST:
            raise ValueError(f"ranks={self.ranks!r}: expected {FEWEST} to {MOST}")
        if whole_number("step", self.step, least=0) > self.last:
            raise ValueError(f"step={self.step!r}: expected 0 to {self.last}, for {self.ranks} ranks")

    @property
    def last(self) -> int:
        return ring_table.steps(self.ranks)

    @property
    def messages(self) -> list[ring_table.Message]:
        """What was sent in the step that has just ended."""
        return ring_table.messages(self.ranks, self.step) if self.step else []


def step_text(choice: Choice) -> str:
    return f"step {choice.step} of {choice.last}" if choice.step else "before step 1"


def meaning(choice: Choice) -> str:
    """What happened in the step that is shown."""
    if not choice.step:
        return "each rank holds its own input, and nothing else"
    if choice.messages[0].adds:
        return "reduce-scatter: what arrives is added to what is there"
    return "all-gather: what arrives replaces what was there"


def sentence(choice: Choice) -> str:
    """Both, for the text beside the picture."""
    text = f"{step_text(choice)}: {meaning(choice)}."
    return text[0].upper() + text[1:]


# --- the picture ---

_HEIGHT = 5.8  # inches, as are all lengths below
_TOP = 0.82  # of the first row
_BOTTOM = 0.42  # what is left under the last one
_HIGHEST_ROW = 1.3
_BETWEEN = 0.2  # rows, at least: there the arrows are
_STUB = 0.17  # an arrow that comes from beyond the edge
_THICK, _HEAD_WIDTH, _HEAD = 0.03, 0.11, 0.09  # of an arrow
_MESSAGES: Looks = {"facecolor": ARRIVED_COLOR, "linewidth": 0, "snap": False}
_LINKS: Looks = {**_MESSAGES, "facecolor": "#8A8A8A"}
_TITLE_FONT = FONT + 1  # points
_MEANING_AT = 1.25
_BACK = 0.09  # where the link from the last rank to the first runs


def figure(choice: Choice) -> Picture:
    """Draw what each rank holds after a step, and the messages that brought it there.

    A row is a rank, a column a chunk; an arrow is a message, to the next rank, that of the last rank to the
    first.
    """
    drawing = Drawing()
    drawing.show(choice)
    drawing.figure.description = f"{sentence(choice)}\n{ring_table.words(_state(choice))}"
    return drawing.figure


class Drawing:
    """The picture of ``figure``, and how it changes.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self) -> None:
        self.figure, axes = sheet(_HEIGHT)
        self._title = Texts(axes, _TITLE_FONT)
        self._cells = Cells(axes)
        self._messages = axes.add_collection(PolyCollection([], **_MESSAGES))
        self._links = axes.add_collection(PolyCollection([], **_LINKS))
        self.changing = layer_on_top([*self._cells.changing, self._messages, self._links, self._title.artist])
        key(axes, HELD_KEY, ARRIVED_KEY, COMPLETE_KEY)

    def show(self, choice: Choice) -> None:
        place = layout(choice)
        self._cells.show(place, _state(choice), arrived(choice))
        self._messages.set(verts=[each for message in choice.messages for each in _arrows(place, message)])
        self._links.set(verts=_ring(place))
        self._title.show(_from_left((step_text(choice), 0.1), (meaning(choice), _MEANING_AT)))
        self.figure.description = f"What each of {choice.ranks} ranks has of each chunk. {sentence(choice)}"


def layout(choice: Choice) -> Layout:
    """Where the cells are: all over the page, but where they are few."""
    row = min((_HEIGHT - _TOP - _BOTTOM) / choice.ranks, _HIGHEST_ROW)
    return Layout(choice.ranks, _TOP, row, _BETWEEN)


def _from_left(*texts: tuple[str, float]) -> list[tuple[str, float, float]]:
    """Texts with their centers, from their left ends."""
    return [(text, left + text_width(text, _TITLE_FONT) / 2, 0.2) for text, left in texts]


def _state(choice: Choice) -> ring_table.State:
    return ring_table.after(choice.ranks, choice.step)


def arrived(choice: Choice) -> dict[tuple[int, int], set]:
    """Of which ranks the input came into a rank's chunk, in the step that is shown."""
    if not choice.step:
        return {}
    before = ring_table.after(choice.ranks, choice.step - 1)
    return {
        (each.receiver, each.into): set(before[each.sender][each.chunk] or ()) for each in choice.messages
    }


Shape = list[tuple[float, float]]


def _arrows(layout: Layout, message: ring_table.Message) -> list[Shape]:
    """From a cell down to the one below; from the last row out of the picture, and in again at the top."""
    x, _ = layout.center(message.sender, message.chunk)
    leaves = layout.corner(message.sender, 0)[1] + layout.cell[1]
    arrives = layout.corner(message.receiver, 0)[1]
    if message.receiver > message.sender:
        return [_arrow(x, leaves + 0.02, arrives - 0.02)]
    return [_bar(x, leaves + 0.02, leaves + _STUB), _arrow(x, arrives - _STUB, arrives - 0.02)]


def _ring(layout: Layout) -> list[Shape]:
    """Arrows from each rank's name to the next one's, and from the last one's around to the first."""
    heights = [layout.center(rank, 0)[1] for rank in range(layout.ranks)]
    down = [_arrow(NAMES, upper + 0.1, lower - 0.1)
            for upper, lower in zip(heights, heights[1:], strict=False)]  # fmt: skip
    first, last, half, beside = heights[0], heights[-1], _THICK / 2, NAMES - 0.24
    turn = [(beside, last - half), (beside, last + half), (_BACK, last + half), (_BACK, last - half)]
    into = [(x, first + y - _BACK) for y, x in _arrow(_BACK, _BACK - half, beside)]
    return [*down, turn, _bar(_BACK, first - half, last + half), into]


def _bar(x: float, top: float, bottom: float) -> Shape:
    half = _THICK / 2
    return [(x - half, top), (x + half, top), (x + half, bottom), (x - half, bottom)]


def _arrow(x: float, top: float, tip: float) -> Shape:
    neck, half = tip - _HEAD, _THICK / 2
    head = [(x + _HEAD_WIDTH / 2, neck), (x, tip), (x - _HEAD_WIDTH / 2, neck)]
    return [(x - half, top), (x + half, top), (x + half, neck), *head, (x - half, neck)]


# --- the numbers beside it ---


def readout(choice: Choice) -> Readout:
    """The picture in short texts."""
    state = _state(choice)
    return Readout(ring_table.rows(state), [sentence(choice), *ring_table.keys(state)])


# --- the sliders ---


def explorer(start: Choice = Choice()) -> Explorer:  # noqa: B008 (frozen)
    """The explorer as a widget."""
    controls = {
        "ranks": widgets.IntSlider(start.ranks, FEWEST, MOST, description="ranks N"),
        "step": widgets.IntSlider(start.step, 0, start.last, description="step"),
    }
    for control in controls.values():
        control.layout.width = "auto"

    def ranks_chosen(change: dict) -> None:
        controls["step"].max = Choice(change["new"]).last

    def choose(ranks: int, step: int) -> Choice:
        # Another thread may ask between a move of N and that of the step's end.
        return Choice(ranks, min(step, Choice(ranks).last))

    controls["ranks"].observe(ranks_chosen, "value")
    return Explorer(Drawing(), controls, choose, readout)
