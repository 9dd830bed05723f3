"""`course predictions FOLDER`: what a class predicted, as a table and histograms."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from course_lib import predictions
from course_lib.classroom.student_names import shortened, shown
from course_lib.predictions import FILE_NAME, counting_prediction, number_text

_BINS = 12  # of a histogram, at most twice as many
_LONGEST_TEXT = 60


@dataclass(frozen=True)
class ClassPrediction:
    """What a class predicted under one name, in one unit, and what they measured."""

    name: str
    unit: str
    predicted: tuple[float, ...]  # by student, only those made before the measurement was seen
    measured: tuple[float, ...]

    def summary(self) -> dict:
        """Numbers for a table: counts, smallest, median and largest prediction, median measurement."""
        return {
            "name": self.name,
            "unit": self.unit,
            "students": len(self.predicted),
            "smallest": min(self.predicted, default=None),
            "median": statistics.median(self.predicted) if self.predicted else None,
            "largest": max(self.predicted, default=None),
            "measured": statistics.median(self.measured) if self.measured else None,
        }


def read_class(folder: Path) -> tuple[list[ClassPrediction], dict[str, str]]:
    """All predictions below a folder with one folder per student, and what could not be read, by student.

    Raises ValueError when ``folder`` is not a folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: expected a folder with one folder per student")
    collected: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    problems = {}
    for student in sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()):
        try:
            _collect(_newest(student), collected)
        except (OSError, ValueError) as error:
            problems[student.name] = str(error) or type(error).__name__
    found = sorted(collected.items())
    return [ClassPrediction(*key, tuple(made), tuple(seen)) for key, (made, seen) in found], problems


def _newest(student: Path) -> dict:
    """The student's predictions; of several copies, the one with the latest entry."""
    inside = student.resolve()
    files = [path for path in sorted(student.rglob(FILE_NAME)) if path.resolve().is_relative_to(inside)]
    if not files:
        raise ValueError(f"no {FILE_NAME}")
    return max((predictions.read(path) for path in files), key=_latest)


def _latest(entries: dict) -> str:
    return max((made["time"] for entry in entries.values() for made in entry["history"]), default="")


def _collect(entries: dict, collected: dict) -> None:
    for name, entry in entries.items():
        prediction, seen = counting_prediction(entry), entry.get("seen")
        if prediction is not None and prediction.before_measurement:
            collected.setdefault((name, prediction.unit), ([], []))[0].append(prediction.value)
        if seen is not None:
            collected.setdefault((name, seen["unit"]), ([], []))[1].append(seen["value"])


def table(class_predictions: list[ClassPrediction]) -> str:
    """One line for each prediction, with a head."""
    head = ("prediction", "students", "smallest", "median", "largest", "measured", "unit")
    rows: list[tuple[str, ...]] = [head]
    for prediction in class_predictions:
        summary = {**prediction.summary(), "prediction": prediction.name}
        rows.append(tuple(_cell(summary[column]) for column in head))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def _cell(value: float | str | None) -> str:
    return "-" if value is None else _printable(value) if isinstance(value, str) else number_text(value)


def _printable(text: str) -> str:
    """Students' text may not steer the instructor's terminal, nor fill it."""
    return shortened(shown(text), _LONGEST_TEXT)


def figure(class_predictions: list[ClassPrediction]):
    """A matplotlib figure with one histogram for each prediction and the class's median measurement."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(2, len(class_predictions))
    rows = math.ceil(len(class_predictions) / columns)
    drawing = Figure(figsize=(5.5 * columns, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(drawing)
    grid = drawing.subplots(rows, columns, squeeze=False).ravel()
    for axes, prediction in zip(grid, class_predictions, strict=False):
        _histogram(axes, prediction)
    for axes in grid[len(class_predictions) :]:
        axes.remove()
    return drawing


def _histogram(axes, prediction: ClassPrediction) -> None:
    summary = prediction.summary()
    known = [*prediction.predicted, *([] if summary["measured"] is None else [summary["measured"]])]
    # Guesses often differ by powers of ten; a linear axis would put all but one into the first bar.
    wide = min(known) > 0 and max(known) > 30 * min(known)
    bins = _bins(known, wide)
    axes.hist(prediction.predicted, bins=bins, color="#4477aa", edgecolor="white", label="predicted")
    if summary["measured"] is not None:
        label = f"measured: {number_text(summary['measured'])} {_plain(prediction.unit)}"
        axes.axvline(summary["measured"], color="#cc3311", linewidth=2, label=label)
    if wide:
        axes.set_xscale("log")
    elif all(value == int(value) for value in known):
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(title=_plain(prediction.name), xlabel=_plain(prediction.unit), ylabel="students")
    # Below the axes: inside, the line of the measurement would run through it.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, frameon=False)


def _plain(text: str) -> str:
    """Printable, and no formula for matplotlib, which refuses a wrong one."""
    return _printable(text).replace("$", r"\$")


def _bins(values: list[float], logarithmic: bool) -> list[float]:
    low, high = min(values), max(values)
    if all(value == int(value) for value in values) and high - low < 2 * _BINS:
        return [int(low) - 0.5 + number for number in range(int(high - low) + 2)]  # one bar for each number
    if logarithmic:
        return [low * (high / low) ** (edge / _BINS) for edge in range(_BINS + 1)]
    if low == high:
        low, high = low - 0.5 * abs(low), high + 0.5 * abs(high)
    return [low + (high - low) * edge / _BINS for edge in range(_BINS + 1)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``course predictions``."""
    parser.add_argument("folder", type=Path, help="a folder with one folder for each student")
    parser.add_argument(
        "--png",
        type=Path,
        metavar="FILE",
        help="also draw a histogram for each prediction, to this file; without --png there is no figure",
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print a class's predictions and draw them; 0 when every student's could be read."""
    try:
        found, problems = read_class(arguments.folder)
    except ValueError as error:
        print(error)
        return 1
    if arguments.json:
        print(json.dumps({"predictions": [each.summary() for each in found], "problems": problems}))
    else:
        print(table(found) if found else f"No predictions below {arguments.folder}.")
        for student, problem in problems.items():
            print(f"not read: {_printable(student)}: {_printable(problem)}")
    if arguments.png and found:
        figure(found).savefig(arguments.png, dpi=120)
    return 1 if problems or not found else 0
