"""One color for each thing that the course draws, the same in every figure.

The colors can be told apart with each kind of color blindness; a test simulates them.  Idle time is hatched
as well, so that it does not look like empty paper.
"""

from __future__ import annotations

COLORS = {
    "weights": "#243CAD",
    "gradients": "#FDBD00",
    "optimizer state": "#641154",
    "activations": "#148C5D",
    "communication": "#BF5E13",
    "compute": "#58CBFF",
    "idle": "#E0E0E0",
}
EXAMPLES_COLOR = "#767676"  # of how many examples a training takes: no thing, so it has no color of the above
IDLE_HATCH = "////"
HATCH_COLOR = "#9A9A9A"


def color_of(kind: str) -> str:
    """The color of one kind, as ``#RRGGBB``.  Raises ValueError for a kind that has none."""
    if kind not in COLORS:
        raise ValueError(f"kind={kind!r}: expected one of {', '.join(map(repr, COLORS))}")
    return COLORS[kind]


def ink_on(color: str) -> str:
    """``black`` or ``white``: the one that is easier to read on this color."""
    # Contrast after WCAG 2.1: black and white are equally far from a relative luminance of about 0.18.
    return "black" if relative_luminance(color) > 0.18 else "white"


def relative_luminance(color: str) -> float:
    """How light ``#RRGGBB`` looks, from 0 (black) to 1 (white), as WCAG 2.1 defines it."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
