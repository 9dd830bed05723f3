"""Finds room for texts on a map whose regions, lines and marks move.

Stands on numpy, and on ``ring_drawing`` for the width of a text.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from course_lib.ring_drawing import FONT, text_width

_STEP = 0.04  # inches, as are all lengths here
_HIGH = 0.2  # a text, with a little room around it
_MARGIN = 0.1  # left and right of it together


class Places:
    """A rectangle of the page, in small squares.  ``columns`` and ``rows``: where their centers are."""

    def __init__(self, left: float, right: float, top: float, bottom: float):
        self.columns = np.arange(left + _STEP / 2, right, _STEP)
        self.rows = np.arange(top + _STEP / 2, bottom, _STEP)
        self._taken = np.zeros((len(self.rows), len(self.columns)), bool)

    def take(self, x: float, y: float, width: float, height: float) -> None:
        """Nothing may stand there, in a rectangle around a point."""
        across = np.abs(self.columns - x) < (width + _STEP) / 2
        down = np.abs(self.rows - y) < (height + _STEP) / 2
        self._taken |= down[:, None] & across

    def take_borders(self, regions: np.ndarray) -> None:
        """Where a square and the next one, to the right or below, are of different regions."""
        self._taken[:, :-1] |= regions[:, :-1] != regions[:, 1:]
        self._taken[:-1] |= regions[:-1] != regions[1:]

    def put(
        self, options: Iterable[str], region: np.ndarray, near_row: float | None = None
    ) -> list[tuple[str, float, float]]:
        """The first of some texts for which there is room in a region, and its center; or nothing.

        As near as possible to the middle of the region, or to a height.
        """
        if not region.any():
            return []
        down, across = np.nonzero(region)
        middle = self.columns[across].mean()
        height = self.rows[down].mean() if near_row is None else near_row
        free = np.pad(np.cumsum(np.cumsum(~region | self._taken, axis=0), axis=1), ((1, 0), (1, 0)))
        for text in options:
            wide = int(np.ceil((text_width(text, FONT) + _MARGIN) / _STEP))
            high = int(np.ceil(_HIGH / _STEP))
            inside = free[high:, wide:] - free[:-high, wide:] - free[high:, :-wide] + free[:-high, :-wide]
            tops, lefts = np.nonzero(inside == 0)
            if len(tops):
                x = self.columns[lefts] + (wide - 1) * _STEP / 2
                y = self.rows[tops] + (high - 1) * _STEP / 2
                best = np.argmin((x - middle) ** 2 + (y - height) ** 2)
                self.take(x[best], y[best], wide * _STEP, high * _STEP)
                return [(text, float(x[best]), float(y[best]))]
        return []
