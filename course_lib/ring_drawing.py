"""Draws a state of ``ring_table``: a box for each rank and chunk, with a place in it for each rank's input.

A place stays where it is while the input in it comes and goes, and its number says which rank's it is, so no
color is needed to tell ranks apart.  All is made of a few collections of paths, since hundreds of texts could
not follow a slider.  matplotlib comes with this module; ``ring_table`` does without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba_array
from matplotlib.patches import Patch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D, Bbox

from course_lib import ring_table
from course_lib.palette import color_of, ink_on
from course_lib.pictures import Looks, Picture

FONT = 9  # points
WIDTH = 7.4  # inches, as are all lengths below
NAMES = 0.44  # where the ranks' names are centered
ARRIVED_COLOR = color_of("communication")
_COLORS = ["#FFFFFF", color_of("gradients"), ARRIVED_COLOR, "#000000"]  # of a place, by what is in it
_NOTHING, _ONCE, _ARRIVED, _MORE = range(4)
_PLACE_EDGE = {"edgecolor": "#C8C8C8", "linewidth": 0.6}
_FRAMES = {"edgecolor": np.array(["#8A8A8A", "#000000"]), "linewidth": np.array([0.7, 2.2])}  # complete: last
_LEFT = 0.86  # of the first column
_WIDEST = 3.2  # from one column to the next
_HIGHEST = 0.42  # a place
_MARGIN = 0.045  # between a cell's frame and its places
_NOTE = 0.17  # the height of words in a cell
_NOTE_FONT = 7.5  # points
_LABEL_FONT = 11  # points, at most

# What the looks mean, for ``key``.
HELD_KEY = ("a number: that rank's input is in the sum", {"facecolor": _COLORS[_ONCE], **_PLACE_EDGE})
ARRIVED_KEY = ("it came in this step", {"facecolor": ARRIVED_COLOR, **_PLACE_EDGE})
MORE_KEY = ("more than once", {"facecolor": _COLORS[_MORE], **_PLACE_EDGE})
COMPLETE_KEY = ("complete: each input once",
                {"facecolor": "none", **{name: looks[-1] for name, looks in _FRAMES.items()}})  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Where everything is, from the top left corner of the sheet.

    ``top``: of the first row.  ``row``: from one row of cells to the next.  ``between``: what is left free
    between them.  ``note``: room for words in each cell.
    """

    ranks: int
    top: float
    row: float
    between: float
    note: float = 0.0

    @cached_property
    def across(self) -> int:
        """Places side by side in a cell."""
        return self.ranks if self.ranks < 6 else ceil(self.ranks / 2)

    @cached_property
    def down(self) -> int:
        return ceil(self.ranks / self.across)

    @cached_property
    def column(self) -> float:
        """From one column of cells to the next."""
        return min((WIDTH - _LEFT - 0.02) / self.ranks, _WIDEST)

    @cached_property
    def place(self) -> tuple[float, float]:
        """Width and height of a place."""
        width = 0.95 * self.column - 2 * _MARGIN
        height = self.row - self.between - self.note - 2 * _MARGIN
        return width / self.across, min(height / self.down, _HIGHEST)

    @cached_property
    def cell(self) -> tuple[float, float]:
        """Width and height of a cell."""
        width, height = self.place
        return self.across * width + 2 * _MARGIN, self.down * height + 2 * _MARGIN + self.note

    def corner(self, rank: int, chunk: int) -> tuple[float, float]:
        """The top left corner of a cell."""
        return _LEFT + chunk * self.column, self.top + rank * self.row

    def center(self, rank: int, chunk: int) -> tuple[float, float]:
        """The center of a cell."""
        (left, top), (width, height) = self.corner(rank, chunk), self.cell
        return left + width / 2, top + height / 2

    @cached_property
    def places(self) -> np.ndarray:
        """The centers of all places: of each rank, in it each chunk, in it each rank's input."""
        corners = [self.corner(rank, chunk) for rank in range(self.ranks) for chunk in range(self.ranks)]
        down, across = np.divmod(np.arange(self.ranks), self.across)
        inside = _MARGIN + (np.stack([across, down], axis=1) + 0.5) * self.place
        return (np.array(corners)[:, None] + inside).reshape(-1, 2)


class Cells:
    """A state on axes whose unit is the inch.  ``changing`` are the artists that ``show`` moves."""

    def __init__(self, axes: Axes):
        self._frames, self._places = (_paths(axes, joinstyle="miter") for _ in range(2))
        self._frames.set_facecolor("none")
        self._places.set(**_PLACE_EDGE)
        self._labels, self._names = _paths(axes, linewidth=0), Texts(axes)
        self.changing: list[Artist] = [self._frames, self._places, self._labels, self._names.artist]

    def show(
        self,
        layout: Layout,
        state: ring_table.State,
        arrived: Mapping[tuple[int, int], Collection[int]] | None = None,
    ) -> None:
        """``arrived``: for a rank and a chunk, the ranks whose input has just come into that cell."""
        ranks = range(layout.ranks)
        cells = [(rank, chunk) for rank in ranks for chunk in ranks]
        complete = [int(ring_table.is_complete(state[rank][chunk], chunk, layout.ranks))
                    for rank, chunk in cells]  # fmt: skip
        self._frames.set(paths=[_box(*layout.cell)], offsets=[layout.center(*cell) for cell in cells],
                         **{name: looks[complete] for name, looks in _FRAMES.items()})  # fmt: skip
        counts = [count for rank, chunk in cells
                  for count in _counts(state[rank][chunk], chunk, layout.ranks)]  # fmt: skip
        came = np.zeros((layout.ranks, layout.ranks, layout.ranks), bool)
        for cell, sources in (arrived or {}).items():
            came[*cell, list(sources)] = True
        self._fill(layout, np.array(counts), came.reshape(-1))
        self._write_names(layout)

    def _fill(self, layout: Layout, counts: np.ndarray, came: np.ndarray) -> None:
        looks = np.minimum(counts, 1) + (came & (counts > 0))
        looks[counts > 1] = _MORE
        self._places.set(paths=[_box(*layout.place)], offsets=layout.places, facecolor=_FILLS[looks])
        filled = np.flatnonzero(counts)
        labels = [_label(int(place) % layout.ranks, int(counts[place]), layout.place) for place in filled]
        self._labels.set(paths=labels, offsets=layout.places[filled], facecolor=_INKS[looks[filled]])

    def _write_names(self, layout: Layout) -> None:
        height = layout.top - layout.between - 0.1
        rows = [(f"rank {rank}", NAMES, layout.center(rank, 0)[1]) for rank in range(layout.ranks)]
        columns = [(f"chunk {chunk}", layout.center(0, chunk)[0], height) for chunk in range(layout.ranks)]
        self._names.show(rows + columns)


_FILLS, _INKS = to_rgba_array(_COLORS), to_rgba_array([ink_on(color) for color in _COLORS])


class Texts:
    """Texts that change, each with its center in inches.  Quicker than matplotlib's own where they recur."""

    def __init__(self, axes: Axes, size: float = FONT):
        self.artist, self._size = _paths(axes, linewidth=0, facecolor="black"), size

    def show(self, texts: Iterable[tuple[str, float, float]]) -> None:
        texts = list(texts)
        self.artist.set(paths=[_text(text, self._size) for text, _, _ in texts],
                        offsets=np.reshape([(x, y) for _, x, y in texts], (-1, 2)))  # fmt: skip


def _paths(axes: Axes, **looks: Any) -> PathCollection:
    """Paths in inches around the points where they stand."""
    transforms: Looks = {"transform": axes.figure.dpi_scale_trans, "offset_transform": axes.transData}
    paths = PathCollection([], **transforms, **looks)
    axes.add_collection(paths, autolim=False)
    return paths


def _counts(cell: ring_table.Cell, chunk: int, ranks: int) -> list[int]:
    """How often each rank's input of the cell's own chunk is in it."""
    counted = ring_table.times(cell or (), chunk)[chunk]
    return [counted[rank] for rank in range(ranks)]


@lru_cache(maxsize=64)
def _box(width: float, height: float) -> Path:
    """A rectangle around the origin."""
    return Path.unit_rectangle().transformed(Affine2D().translate(-0.5, -0.5).scale(width, height))


@lru_cache(maxsize=1024)
def _label(rank: int, count: int, place: tuple[float, float]) -> Path:
    """The rank, with how often if not once; without the rank where that is too wide: its place says it."""
    width, height = 0.84 * place[0], 0.72 * place[1]
    size = min(_LABEL_FONT, 72 * height / _digit(1).height)
    if count == 1:
        return _text(f"{rank}", size)
    full, short = f"{rank}×{count}", f"×{count}"
    label = full if text_width(full, _NOTE_FONT) < width else short
    return _text(label, min(size, width / text_width(label, 1)))


@lru_cache(maxsize=1024)
def _text(text: str, size: float) -> Path:
    """A text of so many points around the origin."""
    path, digit = TextPath((0, 0), text, size=size), _digit(size)
    box = path.get_extents()
    centered = Affine2D().translate(-(box.x0 + box.x1) / 2, -(digit.y0 + digit.y1) / 2)
    return path.transformed(centered.scale(1 / 72))


@lru_cache
def _digit(size: float) -> Bbox:
    return TextPath((0, 0), "0", size=size).get_extents()


@lru_cache(maxsize=1024)
def text_width(text: str, size: float = FONT) -> float:
    """Inches that a text of so many points takes."""
    return TextPath((0, 0), text, size=size).get_extents().width / 72


def sheet(height: float, description: str = "") -> tuple[Picture, Axes]:
    """A figure of WIDTH with one axes all over it, whose unit is the inch, from the top left corner."""
    figure = Picture(figsize=(WIDTH, height), description=description)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def key(axes: Axes, *looks: tuple[str, dict]) -> None:
    """What the looks mean, at the bottom of a sheet."""
    handles = [Patch(label=label, **look) for label, look in looks]
    axes.legend(handles=handles, loc="lower left", ncols=len(handles), frameon=False, fontsize=FONT,
                borderaxespad=0.3, columnspacing=1.6, handlelength=1.5, handletextpad=0.6)  # fmt: skip


def picture(state: ring_table.State, title: str) -> Picture:
    """See ``ring_table.picture``."""
    ranks = ring_table.ranks_of(state)
    notes = {(rank, chunk): cell for rank, row in enumerate(state) for chunk, cell in enumerate(row)
             if cell is None or len(ring_table.times(cell, chunk)) > 1}  # fmt: skip
    note = _NOTE if notes else 0.0
    layout = Layout(ranks, 0.62, (0.52 if ranks < 6 else 0.62) + note, 0.1, note)
    figure, axes = sheet(layout.top + ranks * layout.row + 0.3, f"{title}.\n{ring_table.words(state)}")
    axes.text(0.1, 0.2, title, va="center", fontsize=FONT + 1)
    Cells(axes).show(layout, state)
    for (rank, chunk), cell in notes.items():
        x, y = layout.center(rank, chunk)
        axes.text(x, y + layout.cell[1] / 2 - _MARGIN - _NOTE / 2, _note(cell, chunk, layout.cell[0]),
                  ha="center", va="center", fontsize=_NOTE_FONT)  # fmt: skip
    key(axes, HELD_KEY, MORE_KEY, COMPLETE_KEY)
    return figure


def _note(cell: ring_table.Cell, chunk: int, width: float) -> str:
    """What no place can say, as fully as there is room."""
    if cell is None:
        return "not a sum"
    strays = list(ring_table.times(cell, chunk).items())[1:]
    chunks = ", ".join(f"{of}" for of, _ in strays)
    full = " ".join(f"+ chunk {of} from {', '.join(map(str, sorted(counted)))}" for of, counted in strays)
    options: Sequence[str] = (full, f"+ chunk{'s' * (len(strays) > 1)} {chunks}", f"+ {len(strays)} chunks")
    return next((text for text in options if text_width(text, _NOTE_FONT) < 0.95 * width), options[-1])
