"""Predict, then measure: a learner's numbers, kept with their time.

In a working copy the predictions lie in its ``predictions.json``.  Outside of one, as in the reference
notebooks, they live in the kernel only and nothing is written.

Every value is kept.  The one that counts is the last that was made before the measurement was first seen; a
learner who measured without a prediction may still make one, and it is then shown as made afterwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from pathlib import Path

from course_lib import working_copy

FILE_NAME = "predictions.json"
_LARGEST_FILE = 2**20  # bytes; a class's folder may hold anything

_in_this_kernel: dict = {}  # outside of a working copy


def predict(name: str, value: float | None, unit: str) -> None:
    """Store the learner's prediction of a number and say so in one line.

    ``value`` is in ``unit``; None, as the lessons come, stores nothing.  So does what is no number, with a
    sentence that says what was expected.
    """
    if value is None:
        print(f"no prediction yet: put your number in place of None. Its unit: {unit}")
    elif not _is_number(value):
        print(f"{name}: {value!r} is not a prediction. It must be a number without quotes. Its unit: {unit}")
    else:
        with _store() as entries:
            note = _add(entries.setdefault(name, {"history": []}), float(value), unit)
        print(f"prediction stored: {name} = {number_text(value)} {unit}{note}")


def compare(name: str, measured: float, unit: str, *, computed: bool = False) -> None:
    """Show what was predicted, what was measured, and the ratio of the two.

    ``measured`` is in ``unit``, which must be the prediction's.  From now on the measurement counts as
    seen.  With ``computed`` it is called so, since nothing was measured.

    Raises ValueError when ``measured`` is not a finite number.
    """
    if not _is_number(measured):
        raise ValueError(f"measured={measured!r}: expected a finite number")
    with _store() as entries:
        entry = entries.setdefault(name, {"history": []})
        entry.setdefault("seen", {"value": float(measured), "unit": unit, "time": _now()})
        counted = counting_prediction(entry)
    print(_comparison(name, counted, float(measured), unit, "computed" if computed else "measured"))


@dataclass(frozen=True)
class Prediction:
    """A learner's number, and whether it was made before the measurement was first seen."""

    value: float
    unit: str
    before_measurement: bool


def counting_prediction(entry: dict) -> Prediction | None:
    """Of all that a learner predicted under one name, the prediction that counts; None without any."""
    seen = entry.get("seen", {}).get("time")
    before = [made for made in entry["history"] if seen is None or made["time"] <= seen]
    after = [made for made in entry["history"] if made not in before]
    counted = before[-1] if before else after[0] if after else None
    return counted and Prediction(counted["value"], counted["unit"], bool(before))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _add(entry: dict, value: float, unit: str) -> str:
    """Append a prediction, unless the cell was only run again; returns what else the learner should know."""
    history = entry["history"]
    if not history or (history[-1]["value"], history[-1]["unit"]) != (value, unit):
        history.append({"value": value, "unit": unit, "time": _now()})
    counted = counting_prediction(entry)
    if counted is not None and (counted.value, counted.unit) != (value, unit):
        earlier = f"{number_text(counted.value)} {counted.unit}"
        return f" (you have seen the measurement, so {earlier} still counts)"
    return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def number_text(value: float) -> str:
    """Four significant digits, so that what is shown is the same at every run."""
    return f"{value:,.4g}" if 1e-3 <= abs(value) < 1e4 or not value else f"{value:.4g}"


def _comparison(name: str, predicted: Prediction | None, measured: float, unit: str, origin: str) -> str:
    if predicted is not None and predicted.unit != unit:
        return (
            f"{name}: you predicted in {predicted.unit}, {origin} in {unit}: these can't be compared. "
            f"Predict once more, in {unit}."
        )
    rows = [("predicted", "-" if predicted is None else f"{number_text(predicted.value)} {unit}")]
    rows.append((origin, f"{number_text(measured)} {unit}"))
    rows.append(("ratio", _ratio(predicted, measured, origin)))
    if predicted is not None and not predicted.before_measurement:
        rows[0] = ("predicted", f"{rows[0][1]} (after the measurement was shown)")
    return "\n".join([name, *(f"  {label:<9}  {text}" for label, text in rows)])


def _ratio(predicted: Prediction | None, measured: float, origin: str) -> str:
    if predicted is None:
        return "- (no prediction was made)"
    if predicted.value == measured:
        return "1"
    if predicted.value == 0:
        return "- (the prediction was 0)"
    return f"{number_text(measured / predicted.value)} ({origin} / predicted)"


@contextmanager
def _store() -> Iterator[dict]:
    """The stored predictions, by name, to read and change; saved at the end if they changed."""
    folder = working_copy.find()
    if folder is None:
        yield _in_this_kernel
        return
    from filelock import FileLock  # late: outside of a working copy it is not needed

    path = folder / FILE_NAME
    with FileLock(folder / working_copy.MANIFEST.parent / "predictions.lock", timeout=10):
        content = _read_or_set_aside(path)
        before = json.dumps(content)
        yield content
        if json.dumps(content) != before:
            text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
            working_copy.write_atomically(path, text.encode())


def _read_or_set_aside(path: Path) -> dict:
    """The stored predictions; a damaged file is kept under another name, and said."""
    try:
        return read(path)
    except FileNotFoundError:
        return {}
    except ValueError:
        aside = path.with_name("predictions.damaged.json")
        path.replace(aside)
        print(f"{path.name} was damaged; it is now {aside.name}, and a new one begins.")
        return {}


def read(path: Path) -> dict:
    """A learner's predictions by name: ``{"history": [{value, unit, time}], "seen": {value, unit, time}}``.

    ``seen`` is there once the measurement was shown.  Raises FileNotFoundError, or ValueError when the file
    is not of this form; the file may come from anybody.
    """
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError("too large")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("not an object of predictions by name")
    for entry in content.values():
        _require(isinstance(entry, dict) and isinstance(entry.get("history"), list))
        for made in [*entry["history"], *([entry["seen"]] if "seen" in entry else [])]:
            _require(isinstance(made, dict) and _is_number(made.get("value")))
            _require(isinstance(made.get("unit"), str) and isinstance(made.get("time"), str))
    return content


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError("an entry is not a number with unit and time")
