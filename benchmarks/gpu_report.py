"""Rows of what was measured, a table and JSON of them, and a limit on what a section may take."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.measurements import CALM

MEASURED, FAILED, LEFT_OUT = "measured", "failed", "left out"
_UNITS = {  # unit -> what is shown of it, and how many of these it has
    "s": ("ms", 1e3),
    "bytes": ("MB", 1e-6),
    "FLOP/s": ("TFLOP/s", 1e-12),
    "tokens/s": ("ktokens/s", 1e-3),
}
_LONGEST_SENTENCE = 160  # characters


@dataclass(frozen=True)
class Row:
    """One line: ``measured`` beside another number in the same unit, and what that is.

    ``unit``: s, bytes, FLOP/s or tokens/s.  ``spread``: how much repeats of what was measured differ, as
    ``measurements.spread`` says.  A row that is not measured has its reason in ``note``.
    """

    section: str
    what: str
    ranks: int
    measured: float | None = None
    unit: str = "s"
    beside: float | None = None
    beside_what: str = ""
    spread: float | None = None
    note: str = ""
    state: str = MEASURED

    @property
    def ratio(self) -> float | None:
        return self.measured / self.beside if self.measured is not None and self.beside else None

    def as_json(self) -> dict:
        return dataclasses.asdict(self) | {"ratio": self.ratio}


class Section(NamedTuple):
    """``rows()`` measures; it may take so many ``seconds``.  ``ranks``: GPUs that it needs at least."""

    name: str
    seconds: float
    rows: Callable[[], Iterable[Row]]
    ranks: int = 1


class TookTooLong(Exception):
    pass


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End the block with TookTooLong after so many seconds, whatever it waits for.  For the main thread."""

    def end(signal_number: int, frame: object) -> None:
        raise TookTooLong(f"took over {seconds:.0f} s, and was ended")

    handler = signal.signal(signal.SIGALRM, end)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def rows_of(section: Section, gpus: int, seconds_left: float) -> list[Row]:
    """The section's rows; what goes wrong is a row, too, and those before it stay."""
    if gpus < section.ranks:
        there = "there is one" if gpus == 1 else f"there are {gpus}"
        return [Row(section.name, "", section.ranks, note=f"needs {section.ranks} GPUs, and {there}",
                    state=LEFT_OUT)]  # fmt: skip
    if seconds_left <= 0:
        return [Row(section.name, "", section.ranks, note="no time was left for it", state=FAILED)]
    rows = []
    try:
        with limited(min(section.seconds, seconds_left)):
            for row in section.rows():
                rows.append(row)
    except Exception as error:
        rows.append(failed(section, error))
    return rows


def failed(section: Section, error: Exception) -> Row:
    return Row(section.name, "", section.ranks, note=_sentence(error), state=FAILED)


def _sentence(error: Exception) -> str:
    """The first line of what it says that says something, in one line of the table."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    return text if len(text) <= _LONGEST_SENTENCE else f"{text[:_LONGEST_SENTENCE]}…"


HEADER = (
    f"{'section':11} {'what':48} {'N':>3} {'measured':>18}  {'beside it':34} {'ratio':>7} {'spread':>7}  note"
)


def line(row: Row) -> str:
    """The row in the table's columns."""
    if row.state != MEASURED:
        return f"{row.section:11} {row.state}: {row.what + ': ' if row.what else ''}{row.note}"
    beside = f"{amount(row.beside, row.unit)} {row.beside_what}" if row.beside is not None else ""
    ratio = f"{row.ratio:.4f}" if row.ratio is not None else "–"
    spread = "–" if row.spread is None else f"{row.spread:.0%}" + "!" * (row.spread > CALM)
    return (f"{row.section:11} {row.what:48} {row.ranks:3} {amount(row.measured, row.unit):>18}  {beside:34} "
            f"{ratio:>7} {spread:>7}  {row.note}").rstrip()  # fmt: skip


def amount(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    shown, factor = _UNITS[unit]
    return f"{value * factor:,.4g} {shown}" if value * factor < 1000 else f"{value * factor:,.0f} {shown}"


def status(rows: Sequence[Row]) -> int:
    """0 if whatever could be measured here was; else 1."""
    return 1 if any(row.state == FAILED for row in rows) else 0
