"""Tables of marks: what platforms import, and cells that no spreadsheet runs."""

import csv
import io
import json

import pytest

from course_lib.classroom import grade_tables
from course_lib.classroom.marks import (
    HANG,
    MISSING,
    PASS,
    TAMPERED,
    WRONG,
    CaseMark,
    ExerciseMark,
    PartMark,
    StudentMark,
    from_plain,
)


def marks(name="anna", seconds=1.5):
    ring = PartMark("check_ring", 2 / 3, 1.0, WRONG, "2 of 3", "Swapped.", (
        CaseMark("N=1", 0.3333, PASS, seconds),
        CaseMark("N=2", 0.3333, PASS, seconds),
        CaseMark("N=3", 0.0, HANG, seconds, "rank 0: stuck\nrank 1: stuck"),
    ))  # fmt: skip
    costs = PartMark("check_costs", 1.0, 1.0, PASS, "all", "", (CaseMark("2 ranks", 1.0, PASS, seconds),))
    nothing = PartMark("check_neighbors", 0.0, 1.0, MISSING, "No notebook of this exercise was handed in.")
    return StudentMark(name, (
        ExerciseMark("00_exchange", "", (nothing,)),
        ExerciseMark("03_ring", f"{name}/03_ring.ipynb", (ring, costs), ("The check cell was changed.",)),
    ), ("notes.ipynb: It is not a notebook.",))  # fmt: skip


def table(text):
    return list(csv.reader(io.StringIO(text, newline="")))


FORMS = {
    "plain": [
        ["student", "00_exchange", "03_ring", "total"],
        ["anna", "0", "1.667", "1.667"],
    ],
    "moodle": [
        ["Username", "00_exchange", "03_ring", "Total"],
        ["anna", "0", "1.667", "1.667"],
    ],
    "canvas": [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "00_exchange", "03_ring", "Final Points"],
        ["    Points Possible", "", "", "", "", "1", "2", "(read only)"],
        ["anna", "", "", "anna", "", "0", "1.667", "1.667"],
    ],
    "blackboard": [
        ["Username", "00_exchange", "03_ring", "Total"],
        ["anna", "0", "1.667", "1.667"],
    ],
}


@pytest.mark.parametrize("platform", grade_tables.PLATFORMS)
def test_each_platform_gets_its_columns(platform):
    assert table(grade_tables.grades([marks()], platform)) == FORMS[platform]


def test_blackboard_wants_every_cell_in_quotes():
    assert grade_tables.grades([marks()], "blackboard").splitlines()[1] == '"anna","0","1.667","1.667"'


def test_an_unknown_platform_is_refused():
    with pytest.raises(ValueError, match="platform='ilias': expected one of 'plain', 'moodle'"):
        grade_tables.grades([marks()], "ilias")


def test_seconds_are_nowhere_but_in_details_and_json():
    assert grade_tables.grades([marks(seconds=1)]) == grade_tables.grades([marks(seconds=2)])
    assert grade_tables.details([marks(seconds=1)]) != grade_tables.details([marks(seconds=2)])


def test_details_have_a_line_for_each_case_and_for_what_has_none():
    head, *rows = table(grade_tables.details([marks()]))
    assert head == ["student", "exercise", "part", "case", "points", "status", "seconds", "message"]
    assert rows == [
        ["anna", "", "", "", "", TAMPERED, "", "notes.ipynb: It is not a notebook."],
        ["anna", "00_exchange", "check_neighbors", "", "0", MISSING, "0.00",
         "No notebook of this exercise was handed in."],
        ["anna", "03_ring", "", "", "", "remark", "", "The check cell was changed."],
        ["anna", "03_ring", "check_ring", "N=1", "0.333", PASS, "1.50", ""],
        ["anna", "03_ring", "check_ring", "N=2", "0.333", PASS, "1.50", ""],
        ["anna", "03_ring", "check_ring", "N=3", "0", HANG, "1.50", "rank 0: stuck\nrank 1: stuck"],
        ["anna", "03_ring", "check_costs", "2 ranks", "1", PASS, "1.50", ""],
    ]  # fmt: skip


FORMULAS = ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1"]


@pytest.mark.parametrize("name", FORMULAS)
def test_no_name_and_no_message_is_a_formula(name):
    for platform in grade_tables.PLATFORMS:
        *_, row = table(grade_tables.grades([marks(name)], platform))
        assert f"'{name}" in row and name not in row
    whole = PartMark("check_ring", 0.0, 1.0, WRONG, name)
    mark = StudentMark(name, (ExerciseMark("03_ring", "", (whole,), (name,)),), (name,))
    cells = [cell for row in table(grade_tables.details([mark])) for cell in row]
    assert name not in cells and cells.count(f"'{name}") == 6


def test_json_holds_everything_and_the_totals():
    data = json.loads(grade_tables.as_json([marks()], seed="a class"))
    assert data["seed"] == "a class"
    [student] = data["students"]
    assert (student["points"], student["most_points"]) == (pytest.approx(5 / 3), 3.0)
    assert [exercise["points"] for exercise in student["exercises"]] == [0.0, pytest.approx(5 / 3)]
    assert from_plain(student) == marks()
