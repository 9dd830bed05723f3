"""A figure that shows itself in a notebook and says in words what it shows.

Figures of the course are made without pyplot: nothing is kept open, and making one changes nothing else.
Such a figure is shown as text only, unless it brings its own picture, as this one does.
"""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

Looks = dict[str, Any]  # how an artist looks: keyword arguments of matplotlib, such as color

_PAGE_WIDTH = 8.0  # inches
_SHARPNESS = 2  # pixels of the picture for each pixel of the page, for screens that can show them


class Picture(Figure):
    """A matplotlib Figure.  ``description`` is shown to those who can't see it, and where no picture can be.

    It is also the text that stands for the figure in a stored notebook, so it should hold no measured number.
    Other arguments are Figure's.
    """

    def __init__(self, *args: Any, description: str, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.description = description

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict, dict]:
        """What Jupyter asks for: the PNG, the description as its text, and the size on the page in pixels."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=_SHARPNESS * self.dpi)
        width, height = (round(inches * self.dpi) for inches in self.get_size_inches())
        metadata = {"alt": self.description, "width": width, "height": height}
        return {"image/png": file.getvalue(), "text/plain": self.description}, {"image/png": metadata}


def page_wide(height: float, description: str) -> Picture:
    """An empty Picture as wide as a notebook's page and ``height`` inches high, which places its own axes."""
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)  # inches
    return Picture(figsize=(_PAGE_WIDTH, height), layout=layout, description=description)
