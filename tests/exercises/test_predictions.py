"""predict and compare: one line that is the same at every run, and nothing lost."""

import json
import math
import subprocess
import sys

import pytest

from course_lib import cli, predictions
from course_lib.classroom import class_predictions
from course_lib.predictions import compare, predict


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A working copy as current folder."""
    (tmp_path / ".course").mkdir()
    (tmp_path / ".course" / "manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def reference(tmp_path, monkeypatch):
    """A folder outside of any working copy, and a kernel that knows no prediction yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predictions, "_in_this_kernel", {})
    return tmp_path


def stored(folder):
    return json.loads((folder / "predictions.json").read_text())


def test_a_prediction_is_stored_with_its_time(copy, capsys):
    predict("ring/bytes", 12, "MB")
    assert capsys.readouterr().out == "prediction stored: ring/bytes = 12 MB\n"
    ((name, entry),) = stored(copy).items()
    (made,) = entry["history"]
    assert (name, made["value"], made["unit"]) == ("ring/bytes", 12.0, "MB")
    assert made["time"].endswith("+00:00")


def test_none_stores_nothing(copy, capsys):
    predict("x", None, "s")
    assert capsys.readouterr().out == "no prediction yet: put your number in place of None. Its unit: s\n"
    assert not (copy / "predictions.json").exists()


@pytest.mark.parametrize("value", ["12", math.nan, math.inf, True, [1], 1j])
def test_what_is_no_number_is_refused_in_one_line(copy, capsys, value):
    predict("x", value, "s")
    printed = capsys.readouterr().out
    assert printed == f"x: {value!r} is not a prediction. It must be a number without quotes. Its unit: s\n"
    assert not (copy / "predictions.json").exists()


def test_numbers_of_numpy_are_numbers(copy, capsys):
    numpy = pytest.importorskip("numpy")
    predict("x", numpy.float32(0.5), "s")
    assert capsys.readouterr().out == "prediction stored: x = 0.5 s\n"


def test_running_a_cell_again_adds_nothing(copy):
    for value in (1, 1, 2, 2, 1):
        predict("x", value, "s")
    assert [made["value"] for made in stored(copy)["x"]["history"]] == [1, 2, 1]


def test_the_last_prediction_before_the_measurement_counts(copy, capsys):
    predict("x", 1, "s")
    predict("x", 2, "s")
    compare("x", 8, "s")
    predict("x", 8, "s")
    compare("x", 8, "s")
    lines = capsys.readouterr().out.splitlines()
    table = ["x", "  predicted  2 s", "  measured   8 s", "  ratio      4 (measured / predicted)"]
    stored_later = "prediction stored: x = 8 s (you have seen the measurement, so 2 s still counts)"
    assert lines[2:] == [*table, stored_later, *table]


def test_without_a_prediction_the_measurement_is_shown_all_the_same(copy, capsys):
    compare("x", 8, "s")
    assert capsys.readouterr().out.splitlines() == [
        "x", "  predicted  -", "  measured   8 s", "  ratio      - (no prediction was made)",
    ]  # fmt: skip


def test_a_prediction_after_the_measurement_is_shown_as_such(copy, capsys):
    compare("x", 8, "s")
    predict("x", 8, "s")
    compare("x", 8, "s")
    assert "  predicted  8 s (after the measurement was shown)" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("predicted", "measured", "ratio"),
    [(0, 3, "- (the prediction was 0)"), (0, 0, "1"), (2, 0, "0 (measured / predicted)"), (3, 3, "1")],
)
def test_ratios_with_zero(copy, capsys, predicted, measured, ratio):
    predict("x", predicted, "s")
    compare("x", measured, "s")
    assert capsys.readouterr().out.splitlines()[-1] == f"  ratio      {ratio}"


def test_other_units_are_refused(copy, capsys):
    predict("x", 3, "ms")
    compare("x", 3, "s")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "x: you predicted in ms, measured in s: these can't be compared. Predict once more, in s."
    ]


def test_a_measurement_must_be_a_number(copy):
    with pytest.raises(ValueError, match="measured=nan"):
        compare("x", math.nan, "s")


def test_a_reference_notebook_writes_nothing(reference, capsys):
    predict("x", 2, "s")
    compare("x", 8, "s")
    assert "  ratio      4 (measured / predicted)" in capsys.readouterr().out
    assert list(reference.iterdir()) == []


@pytest.mark.parametrize("content", ["{", "[" * 100_000])
def test_a_damaged_file_is_set_aside(copy, capsys, content):
    (copy / "predictions.json").write_text(content)
    predict("x", 2, "s")
    assert (copy / "predictions.damaged.json").read_text() == content
    assert list(stored(copy)) == ["x"]
    assert "was damaged" in capsys.readouterr().out


def test_notebooks_that_predict_at_once_lose_nothing(copy):
    code = "import sys; from course_lib.predictions import predict\n" + (
        "for number in range(20): predict(f'{sys.argv[1]}/{number}', number, 's')"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.DEVNULL) for name in "abcd"
    ]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    assert len(stored(copy)) == 80


# --- A class ---


def write_student(folder, value, unit="s", measured=None, name="x"):
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"history": [{"value": value, "unit": unit, "time": "2026-01-01T00:00:00+00:00"}]}
    if measured is not None:
        entry["seen"] = {"value": measured, "unit": unit, "time": "2026-01-01T00:01:00+00:00"}
    (folder / "predictions.json").write_text(json.dumps({name: entry}))


@pytest.fixture
def room(tmp_path):
    write_student(tmp_path / "ada" / "my_course", 1, measured=5)
    write_student(tmp_path / "bob", 10, measured=7)
    write_student(tmp_path / "eve", 4)
    return tmp_path


def test_a_class_is_summed_up(room, capsys):
    assert cli.main(["predictions", str(room)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "prediction  students  smallest  median  largest  measured  unit",
        "x           3         1         4       10       6         s",
    ]


def test_a_class_for_machines(room, capsys):
    assert cli.main(["predictions", str(room), "--json"]) == 0
    (summary,) = json.loads(capsys.readouterr().out)["predictions"]
    assert summary == {
        "name": "x", "unit": "s", "students": 3, "smallest": 1, "median": 4, "largest": 10, "measured": 6,
    }  # fmt: skip


def test_predictions_made_after_the_measurement_do_not_count(room):
    late = {"value": 99, "unit": "s", "time": "2026-01-02"}
    entry = {"history": [late], "seen": {"value": 6, "unit": "s", "time": "2026-01-01"}}
    (room / "eve" / "predictions.json").write_text(json.dumps({"x": entry}))
    ((found,), _) = class_predictions.read_class(room)
    assert found.predicted == (1.0, 10.0)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"x": 3}', '{"x": {"history": [{"value": "a"}]}}', "[" * 100_000, "\xff" * 3]
)
def test_unreadable_predictions_are_named_and_the_rest_is_shown(room, capsys, content):
    (room / "mal").mkdir()
    (room / "mal" / "predictions.json").write_bytes(content.encode("latin-1"))
    assert cli.main(["predictions", str(room)]) == 1
    printed = capsys.readouterr().out
    assert "x           3" in printed
    assert "not read: mal: " in printed


def test_what_lies_outside_a_students_folder_is_not_read(room, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    write_student(outside, 1000)
    (room / "mal").mkdir()
    (room / "mal" / "predictions.json").symlink_to(outside / "predictions.json")
    _, problems = class_predictions.read_class(room)
    assert problems == {"mal": "no predictions.json"}


def test_a_missing_folder_is_said(tmp_path, capsys):
    assert cli.main(["predictions", str(tmp_path / "none")]) == 1
    assert "expected a folder with one folder per student" in capsys.readouterr().out


def test_one_histogram_for_each_prediction(room, tmp_path):
    write_student(room / "kim", 1e6, name="y", unit="bytes")
    found, _ = class_predictions.read_class(room)
    axes = class_predictions.figure(found).axes
    assert [(each.get_title(), each.get_xlabel(), each.get_ylabel()) for each in axes] == [
        ("x", "s", "students"), ("y", "bytes", "students"),
    ]  # fmt: skip
    assert [sum(bar.get_height() for bar in each.patches) for each in axes] == [3, 1]


def test_no_empty_axes_are_left_in_the_grid(room):
    for name in "yz":
        write_student(room / name, 1, name=name)
    found, _ = class_predictions.read_class(room)
    assert len(class_predictions.figure(found).axes) == 3


def test_the_legend_stands_outside_of_the_axes(room):
    found, _ = class_predictions.read_class(room)
    drawing = class_predictions.figure(found)
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    legend = axes.get_legend().get_window_extent()
    assert {text.get_text() for text in axes.get_legend().texts} == {"predicted", "measured: 6 s"}
    assert legend.y1 < axes.xaxis.label.get_window_extent().y0
    assert legend.y0 >= 0


def test_whole_numbers_get_whole_ticks(room):
    write_student(room / "kim", 3, name="y", unit="ranks")
    found, _ = class_predictions.read_class(room)
    drawing = class_predictions.figure(found)
    drawing.draw_without_rendering()
    for axes in drawing.axes:
        assert all(tick == int(tick) for tick in axes.get_xticks())


def test_students_text_is_no_formula(room, tmp_path):
    write_student(room / "mal", 1, name="$\\frac$", unit="$_$")
    assert cli.main(["predictions", str(room), "--png", str(tmp_path / "class.png")]) == 0


def test_students_text_does_not_steer_the_terminal_nor_fill_it(room, capsys):
    write_student(room / "mal", 1, name="\x1b[2Jup\u202e", unit=100 * "s")
    write_student(room / "\x1b[1A", 1)
    (room / "\x1b[1A" / "predictions.json").write_text("[]")
    assert cli.main(["predictions", str(room)]) == 1
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.splitlines())
    assert r"\x1b[2Jup\u202e  1 " in printed and f" {59 * 's'}…\n" in printed
    assert r"not read: \x1b[1A: " in printed


def test_help_says_that_the_figure_is_asked_for(capsys):
    with pytest.raises(SystemExit):
        cli.main(["predictions", "--help"])
    assert "without --png there is no figure" in " ".join(capsys.readouterr().out.split())


def test_the_figure_is_written(room, tmp_path):
    assert cli.main(["predictions", str(room), "--png", str(tmp_path / "class.png")]) == 0
    assert (tmp_path / "class.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_computed_is_not_called_measured(copy, capsys):
    predict("x", 2, "MB")
    compare("x", 3, "MB", computed=True)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "x", "  predicted  2 MB", "  computed   3 MB", "  ratio      1.5 (computed / predicted)"]  # fmt: skip
