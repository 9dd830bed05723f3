"""Draw a figure again and again within a few milliseconds, when only some of its artists change.

A slider's picture must follow the hand.  A full render of a figure takes tens of milliseconds, with
logarithmic axes hundreds.  So what never changes (axes, ticks, labels, grids) is drawn once and kept, and
each new picture draws the changing artists over it.  That needs axes whose limits are fixed: draw log10 of
the values on a linear axis, and write the ticks' texts yourself.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from math import log10

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_ABOVE_ALL = 100  # z-order; spines and tick marks end below 3


def layer_on_top(artists: Iterable[Artist]) -> list[Artist]:
    """Put artists over all others of their axes, in the order given, and return them.

    What lies under a changing artist may be kept; what lies over it would be painted out.
    """
    artists = list(artists)
    for height, artist in enumerate(artists, start=_ABOVE_ALL):
        artist.set_zorder(height)
    return artists


class FastCanvas:
    """Renders ``figure``, of whose artists only ``changing`` may change after this is made.

    Each of ``changing`` must belong to an axes and be one of those of ``layer_on_top``.  Raises ValueError
    when the figure has a layout engine: that would move the axes away from what is kept.
    """

    def __init__(self, figure: Figure, changing: Iterable[Artist]):
        if figure.get_layout_engine() is not None:
            raise ValueError("figure has a layout engine: expected axes at fixed places")
        self._changing = list(changing)
        for artist in self._changing:
            artist.set_animated(True)  # leaves it out of the full render
        self._canvas = FigureCanvasAgg(figure)
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(figure.bbox)

    def pixels(self) -> np.ndarray:
        """The figure as it stands now: height × width × 4 bytes, red, green, blue and opacity."""
        self._canvas.restore_region(self._background)
        for artist in self._changing:
            artist.draw(self._canvas.get_renderer())
        return np.asarray(self._canvas.buffer_rgba())

    def png(self) -> bytes:
        """The figure as it stands now, as a PNG file."""
        return png(self.pixels())


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of height × width × 4 bytes, without losses.

    Pillow tries five filters on each row, which takes twice as long as all of this and gains little where
    most of the picture is paper.  The format: W3C, Portable Network Graphics.
    """
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + channels * width), np.uint8)  # each begins with 0: no filter
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)  # 8 bits each of four channels
    content = zlib.compress(rows.data, level=1)
    chunks = [_chunk(b"IHDR", header), _chunk(b"IDAT", content), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def log_axis(
    axis: XAxis | YAxis, least: float, most: float, texts: Mapping[float, str] | Mapping[int, str]
) -> None:
    """Make an axis that shows log10 of values from ``least`` to ``most``, with a text at each of some values.

    To draw at a value, draw at its log10.
    """
    axis.axes.set(**{f"{axis.axis_name}lim": (log10(least), log10(most))})
    axis.set_ticks([log10(value) for value in texts], list(texts.values()))
