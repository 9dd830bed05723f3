"""Measured points: kept whole, read back as they were, and replaced by recorded ones on a busy machine."""

import json
import math
import re
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import links, machine, measurements
from course_lib.measurements import FILE_NAME, Measurement, Series, newest, read_file, recorded, spread
from tools import record_points

POINT = Measurement(
    "all-reduce", 0.25, "s", {"algorithm": "ring", "ranks": 4, "bytes": 2**23}, 5, 0.02, "real",
    "400 Mbit/s links", "some processor, 2 cores, Linux", "cpu", "2025-01-31T12:00:00+00:00",
)  # fmt: skip


@pytest.fixture(autouse=True)
def share(monkeypatch):
    """Of a core, which tests must not find taken by other tests."""
    given = [1.0]
    monkeypatch.setattr(measurements, "processor_share", lambda: given[0])
    return given


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A working copy as current folder."""
    (tmp_path / ".course").mkdir()
    (tmp_path / ".course" / "manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Where recorded points lie."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setattr(measurements, "RECORDED", folder)
    return folder


def ring_series(*values, **conditions):
    series = Series("all-reduce", "s")
    series.add(values, algorithm="ring", ranks=4, bytes=2**23, **conditions)
    return series


def lines(folder):
    return (folder / FILE_NAME).read_text().splitlines()


def kept(folder):
    return read_file(folder / FILE_NAME)


# --- points ---


def test_a_point_is_the_median_of_its_repeats_with_where_and_when(copy):
    before = datetime.now(UTC).replace(microsecond=0)
    (point,) = ring_series(0.25, 0.24, 0.26, 0.25, 0.27).finish().points
    assert (point.quantity, point.value, point.unit) == ("all-reduce", 0.25, "s")
    assert point.conditions == {"algorithm": "ring", "ranks": 4, "bytes": 2**23}
    assert (point.repeats, point.spread) == (5, pytest.approx(0.12))
    assert (point.link_kind, point.links, point.device) == ("none", "", "cpu")
    assert before <= datetime.fromisoformat(point.date) <= datetime.now(UTC)


def test_the_machine_is_said_without_names_of_people_or_networks():
    assert re.fullmatch(r".+, \d+ cores(, \d+ GiB)?, \w+", measurements.machine())
    assert "/" not in measurements.machine()


@pytest.mark.parametrize("kind", ["paced", "real"])
def test_the_kind_of_links_is_kept(copy, kind, monkeypatch):
    slow = links.Links("400mbit", kind="paced")
    if kind == "real":  # whatever this machine has
        monkeypatch.setattr(links.Links, "is_real", True)
    series = Series("all-reduce", "s", links=slow, device="cuda")
    series.add([1.0], ranks=2)
    (point,) = series.finish().points
    assert (point.link_kind, point.device) == (kind, "cuda")
    assert point.links == "400 Mbit/s links" + ", paced in software" * (kind == "paced")


# --- the learner's store ---


def test_what_was_kept_is_read_back_as_it_was(copy):
    shown = ring_series(0.25, 0.26).finish()
    assert len(lines(copy)) == 1
    assert tuple(kept(copy)) == shown.points


@settings(deadline=None)
@given(value=st.floats(1e-9, 1e9), ranks=st.integers(1, 4096), text=st.text())
def test_any_point_survives_a_line_of_the_file(value, ranks, text):
    point = replace(POINT, value=value, conditions={"ranks": ranks, "text": text, "hot": True, "rate": 0.5})
    assert measurements._from_line(json.dumps(asdict(point), ensure_ascii=False).encode()) == point


def test_numbers_of_numpy_are_kept(copy):
    series = Series("all-reduce", "s")
    series.add(np.array([1.0, 2.0, 1.5]) / 100 + 1, bytes=np.int64(2**23), rate=np.float32(0.5))
    (point,) = series.finish().points
    assert kept(copy) == [point]
    assert [type(value) for value in point.conditions.values()] == [int, float]


def test_points_are_read_back_in_the_order_in_which_they_were_measured(copy):
    for ranks in (4, 2):
        for name in ("copy", "all-reduce"):
            series = Series(name, "s")
            series.add([1.0], ranks=ranks, algorithm="ring")
            series.finish()
    order = [("copy", 4), ("all-reduce", 4), ("copy", 2), ("all-reduce", 2)]
    assert [(point.quantity, point.conditions["ranks"]) for point in kept(copy)] == order


def test_outside_of_a_working_copy_points_are_shown_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = ring_series(0.25).finish()
    assert ([point.value for point in shown.points], shown.label) == ([0.25], "measured here")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_within_the_working_copy_counts(copy, monkeypatch):
    (copy / "exercises").mkdir()
    monkeypatch.chdir(copy / "exercises")
    ring_series(0.25).finish()
    assert len(lines(copy)) == 1


def test_four_notebooks_write_at_once(copy):
    code = (
        "import sys\n"
        "from course_lib import measurements\n"
        "from course_lib.measurements import Series\n"
        "measurements.processor_share = lambda: 1.0\n"
        "for number in range(50):\n"
        "    series = Series('all-reduce', 's')\n"
        "    for ranks in (2, 4):\n"
        "        series.add([1.0], ranks=ranks, who=sys.argv[1], number=number, text=2000 * 'x')\n"
        "    series.finish()\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "abcd"]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    points = kept(copy)
    assert len(points) == len(lines(copy)) == 400
    for name in "abcd":
        own = [(point.conditions["number"], point.conditions["ranks"]) for point in points
               if point.conditions["who"] == name]  # fmt: skip
        assert own == [(number, ranks) for number in range(50) for ranks in (2, 4)]


@pytest.mark.parametrize("torn", [
    '{"quantity": "all-red', '{"quantity": "all-red\n', "\x00\x00\x00", "[" * 10**5])
def test_a_torn_line_is_left_out_and_said_and_swallows_nothing(copy, capsys, torn):
    first = ring_series(0.25).finish().points
    with open(copy / FILE_NAME, "a") as file:
        file.write(torn)
    second = ring_series(0.5).finish().points
    assert capsys.readouterr().out == ""
    assert tuple(kept(copy)) == first + second
    assert capsys.readouterr().out == f"{FILE_NAME}: 1 damaged line left out.\n"


@pytest.mark.parametrize("change", [
    {"value": "0.25"}, {"value": None}, {"value": math.nan}, {"value": True}, {"unit": 1}, {"conditions": []},
    {"conditions": {"ranks": [4]}}, {"link_kind": "slow"}, {"date": 2025}, {"repeats": "5"}, {"more": 1}])
def test_a_line_that_is_no_measurement_is_left_out_and_said(copy, capsys, change):
    entries = [{**asdict(POINT), **change}, asdict(POINT), "text", 7, None]
    (copy / FILE_NAME).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert kept(copy) == [POINT]
    assert capsys.readouterr().out == f"{FILE_NAME}: 4 damaged lines left out.\n"


def test_a_file_that_can_not_be_written_stops_nothing_and_is_said(copy, capsys):
    (copy / FILE_NAME).mkdir()
    shown = ring_series(0.25).finish()
    assert shown.label == "measured here"
    said = capsys.readouterr().out
    assert said.startswith(f"{FILE_NAME} can't be written (")
    assert said.endswith("), so these points are not kept.\n")


def test_the_newest_point_of_each_condition_counts():
    points = [POINT, replace(POINT, value=0.3), replace(POINT, value=0.4, machine="another"),
              replace(POINT, value=0.5, conditions={**POINT.conditions, "ranks": 8}),
              replace(POINT, value=0.6, link_kind="paced")]  # fmt: skip
    assert [point.value for point in newest(points)] == [0.3, 0.4, 0.5, 0.6]


# --- busy machines ---


@pytest.mark.parametrize(("values", "expected"), [
    ([1], 0), ([2, 2, 2], 0), ([1, 1.4, 1], 0.4), ([0.8, 1, 1.2, 1], 0.4), ([1, 3], 1), ([1, 1, 1, 1, 9], 8)])
def test_the_spread_is_relative_to_the_median(values, expected):
    assert spread(values) == pytest.approx(expected)


def test_a_calm_machine_shows_and_keeps_its_own_points(copy, shelf):
    measurements.write_recorded([POINT], shelf)
    shown = ring_series(0.5, 0.5, 0.69).finish()
    assert ([point.value for point in shown.points], shown.label, shown.note) == ([0.5], "measured here", "")
    assert len(lines(copy)) == 1


def test_a_busy_machine_shows_recorded_points_and_says_so(copy, shelf):
    measurements.write_recorded([POINT], shelf)
    series = ring_series(0.5, 0.5, 0.71)
    series.add([0.5, 0.5], algorithm="star", ranks=4, bytes=2**23)  # calm, but measured in the same minute
    shown = series.finish()
    assert shown.points == (POINT,)
    assert shown.label == "recorded on some processor, 2 cores, Linux, 2025-01-31"
    assert shown.note == (
        "This machine was busy: the repeats of one point differ by 42%. So these points were recorded on "
        "some processor, 2 cores, Linux, 2025-01-31.")
    assert not (copy / FILE_NAME).exists()


def test_a_busy_machine_without_recorded_points_shows_its_own_with_a_warning(copy, shelf):
    shown = ring_series(0.5, 1.5).finish()
    assert [point.value for point in shown.points] == [1.0]
    assert shown.label == "measured here, on a busy machine"
    assert shown.note == (
        "This machine was busy: the repeats of one point differ by 100%. Do not trust these points.")
    assert not (copy / FILE_NAME).exists()


@pytest.mark.parametrize(("got", "is_busy"), [(1.0, False), (0.72, False), (0.71, True), (0.1, True)])
def test_repeats_that_are_slow_alike_are_not_believed_where_others_compute(copy, shelf, share, got, is_busy):
    measurements.write_recorded([POINT], shelf)
    share[0] = got
    shown = ring_series(0.5, 0.5).finish()
    assert shown.label.startswith("recorded on" if is_busy else "measured here")
    said = f"This machine was busy: the notebook got {got:.0%} of a core."
    assert shown.note.startswith(said) == is_busy


def test_the_share_of_a_core_is_a_share():
    assert 0 < machine.processor_share(0.01) <= 1


# --- recorded points ---


def test_recorded_points_are_read_back_as_they_were(shelf):
    points = [POINT, replace(POINT, value=0.5, conditions={**POINT.conditions, "ranks": 8})]
    assert measurements.write_recorded(points, shelf) == shelf / "all-reduce.json"
    assert recorded("all-reduce") == points
    assert recorded("copy") == []


def test_all_recorded_points_of_the_course_are_whole():
    names = [path.stem for path in measurements.RECORDED.glob("*.json")]
    for name in names:
        points = recorded(name)
        assert points and {point.quantity for point in points} == {name}
        assert {point.machine for point in points} == {points[0].machine}
        assert all(point.spread <= measurements.CALM for point in points)
        assert all(point.value > 0 or is_a_difference_of_nothing(point, points) for point in points)
        assert newest(points) == points


def is_a_difference_of_nothing(point, points):
    """How much communication slows computing is a difference of times, so it may come out just below zero."""
    if point.conditions.get("part") != "slowed":
        return False
    [computing] = [other for other in points if other.conditions == {**point.conditions, "part": "compute"}]
    return abs(point.value) <= point.spread * computing.value


@pytest.mark.parametrize(("change", "sentence"), [
    ({"machine": "another"}, "points of 2 kinds of machine: expected one; found ['another', 'some processor"),
    ({"device": "cuda"}, "points of 2 kinds of device: expected one; found ['cpu', 'cuda']"),
    ({"link_kind": "paced"}, "points of 2 kinds of link_kind: expected one; found ['paced', 'real']"),
    ({"unit": "ms"}, "points of 2 kinds of unit: expected one; found ['ms', 's']"),
    ({"quantity": "copy"}, "points of 2 kinds of quantity: expected one; found ['all-reduce', 'copy']"),
    ({"spread": 0.5}, "points whose repeats differ by more than 40%: expected a calm machine's"),
])  # fmt: skip
def test_points_that_do_not_belong_together_are_not_recorded(shelf, change, sentence):
    with pytest.raises(ValueError) as caught:
        measurements.write_recorded([POINT, replace(POINT, **change)], shelf)
    assert str(caught.value).startswith(sentence)
    assert list(shelf.iterdir()) == []


def test_the_tool_records_the_newest_points_of_a_working_copy(copy, shelf, capsys):
    ring_series(0.25).finish()
    ring_series(0.5).finish()
    ring_series(0.7, hot=True).finish()
    assert record_points.main([str(copy), "all-reduce", "--to", str(shelf)]) == 0
    assert [point.value for point in recorded("all-reduce")] == [0.5, 0.7]
    assert capsys.readouterr().out.startswith("all-reduce.json: 2 points recorded on ")


def test_the_tool_says_why_it_records_nothing(copy, shelf, capsys):
    assert record_points.main([str(copy), "all-reduce", "--to", str(shelf)]) == 1
    measurements.keep([POINT, replace(POINT, machine="another")])
    assert record_points.main([str(copy), "copy", "--to", str(shelf)]) == 1
    assert record_points.main([str(copy), "all-reduce", "--to", str(shelf)]) == 1
    assert list(shelf.iterdir()) == []
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["No points of 'all-reduce' there; there are: none",
                        "No points of 'copy' there; there are: all-reduce"]  # fmt: skip
    assert said[2].startswith("points of 2 kinds of machine")


# --- what is refused ---


@pytest.mark.parametrize("name", ["", "All-reduce", "../x", "all_reduce", "a b", None, 3])
def test_a_name_that_is_no_file_name_is_refused(name):
    for call in (lambda: Series(name, "s"), lambda: recorded(name)):
        with pytest.raises(ValueError, match="expected lower-case words with hyphens between"):
            call()


@pytest.mark.parametrize(("values", "sentence"), [
    ([], "values=[]: expected one repeat or more"), ([1, 0], "value 0: expected a number above 0"),
    ([-1.0], "value -1.0: expected"), ([math.nan], "value nan: expected"), (["1"], "value '1': expected"),
    ([True], "value True: expected"), ([None], "value None: expected")])
def test_values_that_can_not_be_are_refused(values, sentence):
    for call in (lambda: ring_series(*values), lambda: spread(values)):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("value", [None, [1], math.inf, 1j])
def test_conditions_are_texts_and_numbers(value):
    with pytest.raises(ValueError, match="ranks=.*: expected a text or a number"):
        Series("all-reduce", "s").add([1.0], ranks=value)


def test_a_series_without_points_is_refused(copy):
    with pytest.raises(ValueError, match=r"'all-reduce' has no point: expected add\(\) before finish\(\)"):
        Series("all-reduce", "s").finish()


def test_measurements_are_read_without_torch():
    code = "import sys, course_lib.measurements; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
