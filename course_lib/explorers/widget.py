"""What all explorers share: controls, a picture that follows them, and the same in numbers beside it.

Stands on ``fast_canvas`` for pictures that follow the hand; an explorer adds its Choice and its Drawing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import ipywidgets as widgets
from matplotlib.artist import Artist
from traitlets import Unicode

from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.pictures import Picture

# A kernel may handle the messages of two sliders in two threads, and matplotlib can't draw in two.
# Reentrant, since a control that is moved may move another one.
_one_at_a_time = threading.RLock()


class Drawing(Protocol):
    """A figure that is made once; ``show`` moves its ``changing`` artists to where a choice puts them."""

    @property
    def figure(self) -> Picture: ...

    @property
    def changing(self) -> Sequence[Artist]: ...

    def show(self, choice: Any) -> None: ...


@dataclass(frozen=True)
class Readout:
    """The picture in numbers: ``rows`` of equally many texts, the first row the head, and sentences below."""

    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def text(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        lines = [_text_row(row, widths) for row in self.rows]
        return "\n".join([*lines, *self.notes])

    def html(self) -> str:
        head, *body = self.rows
        rows = [_html_row("th", head, "border-bottom:1px solid")]
        rows += [_html_row("td", row, "white-space:nowrap") for row in body]
        notes = "".join(f"<p style='margin:6px 0 0'>{escape(note, quote=False)}</p>" for note in self.notes)
        return f"<div style='line-height:1.45'><table>{''.join(rows)}</table>{notes}</div>"


@dataclass(frozen=True)
class LiveReadout(Readout):
    """Numbers that differ from run to run: ``still`` stands in for them in a stored notebook."""

    still: str = ""

    def text(self) -> str:
        return self.still


def _text_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)])


def _html_row(tag: str, cells: Sequence[str], style: str = "") -> str:
    aligned = ["text-align:left", *["text-align:right;padding-left:1.2em"] * (len(cells) - 1)]
    style += ";font-variant-numeric:tabular-nums"
    inside = "".join(
        f"<{tag} style='{align};{style}'>{escape(cell, quote=False)}</{tag}>"
        for cell, align in zip(cells, aligned, strict=True)
    )
    return f"<tr>{inside}</tr>"


class DescribedImage(widgets.Image):
    """An Image that may have a tooltip, which is read aloud where an image has no alt text, as here.

    In the browser, ipywidgets 8 shows the tooltip of a widget only if it also has a description.
    """

    description = Unicode().tag(sync=True)


class Explorer(widgets.VBox):
    """Controls above a picture and its readout, all updated in place.

    ``controls``: name -> widget; ``choose`` makes a choice from the controls' values, given by these names;
    ``drawing`` shows it and ``readout`` says it.  Where there is no live widget, as on a web page, the
    picture and the readout's text stand in for it.
    """

    def __init__(
        self,
        drawing: Drawing,
        controls: Mapping[str, widgets.ValueWidget],
        choose: Callable[..., Any],
        readout: Callable[[Any], Readout],
    ):
        self._drawing, self._controls, self._choose, self._readout = drawing, controls, choose, readout
        self._canvas = FastCanvas(drawing.figure, drawing.changing)
        self._shown: Any = None
        width = round(drawing.figure.get_figwidth() * drawing.figure.dpi)
        self.picture = DescribedImage(layout=widgets.Layout(width=f"{width}px"))
        # Else its longest sentence decides how wide it is, and it never stands beside the picture.
        self.numbers = widgets.HTML(layout=widgets.Layout(flex="1 1 440px"))
        for control in controls.values():
            control.observe(lambda change: self.update(), "value")
        self.update()
        super().__init__([_grid(controls.values()), _side_by_side(self.picture, self.numbers)])

    @property
    def choice(self) -> Any:
        """Where the controls stand."""
        return self._choose(**{name: control.value for name, control in self._controls.items()})

    def update(self) -> None:
        """Draw where the controls stand, unless that is shown already; any thread may call it.

        Where controls move meanwhile, it goes on until what is shown is where they stand.
        """
        with _one_at_a_time:
            while (choice := self.choice) != self._shown:
                self._drawing.show(choice)
                with self.picture.hold_sync():  # in one message: each of two would show the picture anew
                    self.picture.value = self._canvas.png()
                    self.picture.tooltip = self._drawing.figure.description
                self.numbers.value = self._readout(choice).html()
                self._shown = choice

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict, dict]:
        """The widget, and for those without one the picture and, as its text, the numbers."""
        live = super()._repr_mimebundle_(**options)
        with _one_at_a_time:
            still, metadata = self._drawing.figure._repr_mimebundle_()
            text = self._readout(self.choice).text()
        picture = {**metadata["image/png"], "alt": text}
        return {**live, **still, "text/plain": text}, {"image/png": picture}


def selection(
    texts: Mapping[Any, str], value: Any, description: str, label_width: str = "9em", menu: bool = False
) -> widgets.ValueWidget:
    """A slider over the values of ``texts``, or a menu of them, that begins at ``value``."""
    return (widgets.Dropdown if menu else widgets.SelectionSlider)(
        options=[(text, each) for each, text in texts.items()], value=value, description=description,
        style={"description_width": label_width}, layout={"width": "auto"},
    )  # fmt: skip


def stops_with(stops: Sequence, start: Any) -> list:
    """Where a slider stops: ``stops`` as they are or, if ``start`` is not there, with it and in order."""
    return list(stops) if start in stops else sorted([*stops, start])


def _grid(controls: Iterable[widgets.Widget]) -> widgets.Widget:
    """As many columns as there is room for."""
    columns = "repeat(auto-fit, minmax(400px, 1fr))"
    return widgets.GridBox(
        list(controls), layout=widgets.Layout(grid_template_columns=columns, max_width="1100px")
    )


def _side_by_side(*parts: widgets.Widget) -> widgets.Widget:
    """One below the other where the page is narrow."""
    layout = widgets.Layout(flex_flow="row wrap", align_items="flex-start", grid_gap="24px")
    return widgets.HBox(parts, layout=layout)
