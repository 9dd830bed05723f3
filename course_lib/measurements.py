"""What was measured, where, and when: a learner's own points, and recorded ones for busy machines.

    series = Series("all-reduce", "s", links=links)
    for size, seconds in timed:                      # several repeats for each size
        series.add(seconds, algorithm="ring", ranks=4, bytes=size)
    shown = series.finish()
    shown.points, shown.label                        # for a figure

Each point is the median of its repeats.  In a working copy it is kept, a line of ``measurements.jsonl`` each,
which ``tools/record_points.py`` reads.  Outside of one, as in the reference notebooks, nothing is kept.

Where the repeats of a point differ by more than 40%, or the notebook does not get a core for itself, the
machine has other work, and its times say little about the network: then the course's own points, recorded on
a calm machine, are shown instead, and that is said.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from numbers import Integral, Real
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypeGuard

from course_lib import working_copy
from course_lib.machine import memory_limit, processor_share, usable_cores

if TYPE_CHECKING:
    from course_lib.links import Links

FILE_NAME = "measurements.jsonl"
RECORDED = Path(__file__).parent / "recorded"
CALM = 0.4  # the largest spread of repeats that is believed
LINK_KINDS = ("none", "paced", "real")

Condition = str | int | float | bool


@dataclass(frozen=True)
class Measurement:
    """One point: the median of ``repeats`` values in ``unit``, which differ by ``spread``.

    ``conditions``: what was chosen, such as algorithm, ranks, bytes.  ``link_kind``: ``real`` slow links,
    ``paced`` ones in software, or ``none``; ``links`` describes them.  ``device``: ``cpu`` or ``cuda``.
    ``date``: ISO 8601, in UTC.
    """

    quantity: str
    value: float
    unit: str
    conditions: dict[str, Condition]
    repeats: int
    spread: float
    link_kind: str
    links: str
    machine: str
    device: str
    date: str


@dataclass(frozen=True)
class Shown:
    """The points for a figure, and ``label``, what it must say of their origin.

    ``note``: a sentence on why they are not this machine's, or why they should not be trusted; "" if neither.
    """

    points: tuple[Measurement, ...]
    label: str
    note: str = ""


@dataclass
class Series:
    """Points of one quantity, measured together.

    ``name``: lower-case words with hyphens between; the recorded points that stand in have the same name.
    ``links``: those that were handed to ``ranks.run``.  Raises ValueError for another kind of name.
    """

    name: str
    unit: str
    links: Links | None = None
    device: str = "cpu"
    _points: list[Measurement] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        _require_name(self.name)

    def add(self, values: Iterable[float], **conditions: Condition) -> None:
        """Take the repeats of one point.  Raises ValueError where there are none, or one is not above 0."""
        values = _values(values)
        kind = "none" if self.links is None else "real" if self.links.is_real else "paced"
        self._points.append(Measurement(
            self.name, median(values), self.unit, _conditions(conditions), len(values), spread(values), kind,
            "" if self.links is None else self.links.label, machine(), self.device,
            datetime.now(UTC).isoformat(timespec="seconds"),
        ))  # fmt: skip

    def finish(self) -> Shown:
        """Keep the points and return them; or return recorded ones, if this machine was busy.

        Raises ValueError where no point was added.
        """
        if not self._points:
            raise ValueError(f"series {self.name!r} has no point: expected add() before finish()")
        busy = _why_busy(max(point.spread for point in self._points))
        if not busy:
            keep(self._points)
            return Shown(tuple(self._points), "measured here")
        stand_in = recorded(self.name)
        if not stand_in:
            return Shown(tuple(self._points), "measured here, on a busy machine",
                         f"{busy} Do not trust these points.")  # fmt: skip
        origin = origin_of(stand_in[0])
        return Shown(tuple(stand_in), origin, f"{busy} So these points were {origin}.")


def _why_busy(widest: float) -> str:
    """What tells that the machine has other work; "" if nothing does."""
    if widest > CALM:
        return f"This machine was busy: the repeats of one point differ by {widest:.0%}."
    share = processor_share()
    # Where all repeats are slow alike, they do not differ.
    if 1 / share - 1 > CALM:
        return f"This machine was busy: the notebook got {share:.0%} of a core."
    return ""


def spread(values: Iterable[float]) -> float:
    """How much repeats differ: (largest - smallest) / median.  Raises ValueError unless all are above 0."""
    values = _values(values)
    return (max(values) - min(values)) / median(values)


def origin_of(point: Measurement) -> str:
    """Where and when a point was recorded that is not the learner's own: ``recorded on …, 2025-01-31``."""
    return f"recorded on {point.machine}, {point.date[:10]}"


def machine() -> str:
    """This machine in a few words: processor, cores that may be used, memory, operating system."""
    memory = memory_limit()
    size = "" if memory is None else f"{memory / 2**30:.0f} GiB"
    return ", ".join(filter(None, [_processor(), f"{usable_cores()} cores", size, platform.system()]))


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# --- the learner's points ---


def keep(points: Sequence[Measurement]) -> None:
    """Add points to those of the working copy, if this is one.

    A folder that can't be written to is said, and stops nothing.
    """
    folder = working_copy.find()
    if folder is None:
        return
    lines = "".join(json.dumps(asdict(point), ensure_ascii=False) + "\n" for point in points)
    try:
        _append(folder, lines.encode())
    except OSError as error:
        print(f"{FILE_NAME} can't be written ({error.strerror}), so these points are not kept.")


def _append(folder: Path, lines: bytes) -> None:
    """In one piece, also where two notebooks write, and on a line of its own after what a crash left."""
    from filelock import FileLock  # late: outside of a working copy it is not needed

    with FileLock(folder / working_copy.MANIFEST.parent / "measurements.lock", timeout=10):
        with open(folder / FILE_NAME, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                lines = lines if file.read() == b"\n" else b"\n" + lines
            file.write(lines)  # at the end, whatever was read


def newest(points: Iterable[Measurement]) -> list[Measurement]:
    """Of points measured under the same conditions, links, machine and device, the last one."""
    last = {}
    for point in points:
        key = point.quantity, point.unit, point.link_kind, point.links, point.machine, point.device
        last[*key, *sorted(point.conditions.items())] = point
    return list(last.values())


def read_file(path: Path) -> list[Measurement]:
    """The points in a file, oldest first; none if there is no file.

    Damaged lines are left out, and that is said.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    points = [_from_line(line) for line in lines if line.strip()]
    damaged = points.count(None)
    if damaged:
        print(f"{path.name}: {damaged} damaged line{'s' * (damaged > 1)} left out.")
    return [point for point in points if point is not None]


def _from_line(line: bytes) -> Measurement | None:
    try:
        return _from_entry(json.loads(line))
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None


def _from_entry(entry: object) -> Measurement:
    """Raises ValueError for anything but a measurement's fields; the file may come from anybody."""
    if not isinstance(entry, dict) or entry.keys() != {each.name for each in fields(Measurement)}:
        raise ValueError("not the fields of a measurement")
    texts = ("quantity", "unit", "link_kind", "links", "machine", "device", "date")
    if not all(isinstance(entry[name], str) for name in texts) or entry["link_kind"] not in LINK_KINDS:
        raise ValueError("not a measurement's texts")
    if not all(_is_number(entry[name]) for name in ("value", "repeats", "spread")):
        raise ValueError("not a measurement's numbers")
    if not isinstance(entry["conditions"], dict):
        raise ValueError("not a measurement's conditions")
    return Measurement(**{**entry, "conditions": _conditions(entry["conditions"])})


# --- recorded points ---


def recorded(name: str) -> list[Measurement]:
    """The course's own points of one name, recorded on another machine; none where none were recorded.

    Raises ValueError for what is no name.
    """
    try:
        content = (RECORDED / f"{_require_name(name)}.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [_from_entry(entry) for entry in json.loads(content)]


def write_recorded(points: Sequence[Measurement], folder: Path = RECORDED) -> Path:
    """Make points of one name the recorded ones.  Raises ValueError where they do not belong together."""
    for what in ("quantity", "unit", "link_kind", "machine", "device"):
        found = sorted({getattr(point, what) for point in points})
        if len(found) != 1:
            raise ValueError(f"points of {len(found)} kinds of {what}: expected one; found {found}")
    if any(point.spread > CALM for point in points):
        raise ValueError(f"points whose repeats differ by more than {CALM:.0%}: expected a calm machine's")
    path = folder / f"{_require_name(points[0].quantity)}.json"
    lines = ",\n".join(json.dumps(asdict(point), ensure_ascii=False) for point in points)
    working_copy.write_atomically(path, f"[\n{lines}\n]\n".encode())
    return path


# --- arguments ---


def _require_name(name: object) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"name={name!r}: expected lower-case words with hyphens between, as in 'all-reduce'")
    return name


def _values(values: Iterable[float]) -> list[float]:
    values = list(values)
    if not values:
        raise ValueError("values=[]: expected one repeat or more")
    for value in values:
        if not _is_number(value) or value <= 0:
            raise ValueError(f"value {value!r}: expected a number above 0")
    return [float(value) for value in values]


def _conditions(conditions: Mapping[str, object]) -> dict[str, Condition]:
    return dict(_condition(name, value) for name, value in conditions.items())


def _condition(name: str, value: object) -> tuple[str, Condition]:
    if isinstance(value, str | bool):
        return name, value
    if _is_number(value):  # numpy's too, which JSON would not take
        return name, int(value) if isinstance(value, Integral) else float(value)
    raise ValueError(f"{name}={value!r}: expected a text or a number")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
