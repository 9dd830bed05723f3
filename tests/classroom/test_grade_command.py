"""`course grade`: everybody gets a line, also where marking fails; it ends cleanly, and goes on."""

import csv
import json
import os
import signal
import threading

import pytest
from tqdm import tqdm

from course_lib import cli
from course_lib.classroom import class_marking, grade, jail
from tests.classroom.classes import StandIn, notebook

MARKERS = grade.markers


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """The stand-in in place of jails, and no students seen so far."""
    monkeypatch.setattr(grade, "markers", lambda seed, is_jailed: (StandIn, None))
    monkeypatch.setattr(StandIn, "seen", [])


class Class:
    """A class's folder, and the command on it."""

    def __init__(self, folder):
        self.folder, self.out = folder / "class", folder / "out"
        self.out.mkdir()

    def put(self, student, answer="right", exercise="00"):
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{student}.ipynb").write_bytes(notebook(exercise, answer))

    def grade(self, *more):
        StandIn.seen.clear()
        csv_file = str(self.out / "grades.csv")
        return cli.main(["grade", str(self.folder), "--csv", csv_file, "--exercises", "00,03", *more])

    def everything(self):
        return ["--details", str(self.out / "d.csv"), "--json", str(self.out / "g.json"),
                "--reports", str(self.out / "reports")]  # fmt: skip

    def table(self):
        return list(csv.reader((self.out / "grades.csv").read_text().splitlines()))


@pytest.fixture
def school(tmp_path):
    return Class(tmp_path)


def test_a_class_is_marked(school, capsys):
    for number in range(5):
        school.put(f"s{number}", "right" if number % 2 else "wrong")
    assert school.grade("--jobs", "3") == 0
    assert school.table() == [
        ["student", "00_exchange", "03_ring_all_reduce", "total"],
        *([f"s{n}", points, "0", points] for n, points in enumerate(["1.333", "4"] * 2 + ["1.333"])),
    ]  # fmt: skip
    output = capsys.readouterr()
    assert output.out.startswith("5 students: ") and output.err == ""


def test_all_outputs_are_the_same_whatever_the_order_of_the_workers(school):
    for number in range(6):
        school.put(f"s{number}", "right" if number % 2 else "wrong")
    outputs = []
    for jobs in ("1", "4"):
        assert school.grade("--again", "--jobs", jobs, *school.everything()) == 0
        outputs.append({path.name: path.read_bytes() for path in school.out.rglob("*") if path.is_file()})
    assert outputs[0] == outputs[1]
    assert {"grades.csv", "d.csv", "g.json", "class.html"} < set(outputs[0])
    assert len(list((school.out / "reports").iterdir())) == 7


def test_only_what_changed_is_marked_again(school):
    school.put("anna")
    school.put("bert")
    assert school.grade() == 0 and sorted(StandIn.seen) == ["anna", "bert"]
    assert school.grade() == 0 and StandIn.seen == []
    school.put("bert", "wrong")
    assert school.grade() == 0 and StandIn.seen == ["bert"]
    assert school.table()[2] == ["bert", "1.333", "0", "1.333"]
    assert school.grade("--seed", "another") == 0 and sorted(StandIn.seen) == ["anna", "bert"]
    assert school.grade("--seed", "another", "--no-jail") == 0 and sorted(StandIn.seen) == ["anna", "bert"]
    assert school.grade("--seed", "another", "--no-jail", "--again") == 0 and len(StandIn.seen) == 2


def test_a_kept_mark_that_can_not_be_read_is_made_again(school):
    school.put("anna")
    assert school.grade() == 0
    [kept] = (school.out / ".grades.csv.marks").glob("*.json")
    for content in ("", "{}", "[]", json.dumps(json.loads(kept.read_text()) | {"mark": {"student": 1}})):
        kept.write_text(content)
        assert school.grade() == 0 and StandIn.seen == ["anna"]


def test_a_failure_of_marking_is_a_line_and_stops_nobody(school, capsys):
    for name, answer in {"anna": "boom", "bert": "right", "carla": "boom", "dora": "right"}.items():
        school.put(name, answer)
    assert school.grade("--jobs", "2", *school.everything()) == 1
    assert [row[0] for row in school.table()[1:]] == ["anna", "bert", "carla", "dora"]
    assert [row[-1] for row in school.table()[1:]] == ["0", "4", "0", "4"]
    said = capsys.readouterr().out
    assert "anna was not marked: RuntimeError: the jail\\x1b[31m is gone" in said and "\x1b" not in said
    details = list(csv.DictReader((school.out / "d.csv").read_text().splitlines()))
    assert {row["status"] for row in details if row["student"] == "anna"} == {"crash"}
    # It is tried again, and the others are not.
    school.put("carla")
    assert school.grade() == 1 and sorted(StandIn.seen) == ["anna", "carla"]


def test_whoever_handed_in_nothing_usable_has_a_line_and_needs_no_marker(school):
    school.put("anna")
    (school.folder / "bert").mkdir()
    (school.folder / "carla.zip").write_bytes(b"no zip")
    assert school.grade(*school.everything()) == 0
    assert StandIn.seen == ["anna"]
    assert [row[-1] for row in school.table()[1:]] == ["4", "0", "0"]
    details = list(csv.DictReader((school.out / "d.csv").read_text().splitlines()))
    statuses = {(row["student"], row["status"]) for row in details}
    assert {("bert", "missing"), ("carla", "tampered")} < statuses


def test_ctrl_c_ends_the_markers_and_keeps_what_is_marked(school, capsys, monkeypatch, request):
    school.put("anna")
    school.put("bert", "wait")
    closed = []
    monkeypatch.setattr(StandIn, "close", lambda marker: (closed.append(marker.number), marker.closed.set()))
    ends = grade._Bar.ends

    def press(bar, student, marked):
        ends(bar, student, marked)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(grade._Bar, "ends", press)
    # A shell's background job has it ignored, and so would this process.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # the bar's own thread stays for good
    threads = threading.active_count()
    assert school.grade("--jobs", "1") == 1
    assert closed == [0] and threading.active_count() == threads
    said = capsys.readouterr().out
    assert said == "Stopped. What is marked is kept: the same command goes on from there.\n"
    assert not (school.out / "grades.csv").exists()
    monkeypatch.undo()
    monkeypatch.setattr(grade, "markers", lambda seed, is_jailed: (StandIn, None))
    school.put("bert")
    assert school.grade() == 0 and StandIn.seen == ["bert"]


def test_a_marker_that_never_comes_back_ends_in_a_sentence(school, capsys, monkeypatch):
    school.put("anna", "wait")
    monkeypatch.setattr(class_marking, "SECONDS_FOR_A_STUDENT", 0.5)
    assert school.grade() == 1
    assert capsys.readouterr().out.startswith("No student was marked for 0.5 s.")


def test_the_class_may_lie_where_the_tables_go(school, monkeypatch):
    school.put("anna")
    monkeypatch.chdir(school.folder)
    command = ["grade", ".", "--csv", "grades.csv", "--reports", "reports", "--exercises", "0"]
    for _ in range(2):
        assert cli.main(command) == 0
        assert (school.folder / "grades.csv").read_text().splitlines() == [
            "student,00_exchange,total", "anna,4,4"
        ]  # fmt: skip


@pytest.mark.parametrize("more, sentence", [
    (["--exercises", "00,12"], "there is no exercise 12; expected some of 00, 01, "),
    (["--jobs", "0"], "--jobs 0: expected 1 or more"),
    (["--json", "no/such/folder/x.json"], "no/such/folder/x.json: there is no folder "),
    (["--details", "/"], "/: expected a file, this is a folder"),
])  # fmt: skip
def test_what_can_not_work_is_said_before_anything_is_marked(school, capsys, more, sentence):
    school.put("anna")
    assert school.grade(*more) == 1
    assert sentence in capsys.readouterr().out
    assert StandIn.seen == [] and list(school.out.iterdir()) == []


def test_a_folder_that_is_not_there_is_said(school, capsys):
    assert school.grade() == 1
    assert "expected a folder: No such file or directory" in capsys.readouterr().out


def test_without_a_jail_it_says_what_to_do(school, capsys, monkeypatch):
    school.put("anna")
    monkeypatch.setattr(grade, "markers", MARKERS)
    monkeypatch.setattr("course_lib.classroom.jail.refusal", lambda: "There is no bubblewrap.")
    assert school.grade() == 1
    said = capsys.readouterr().out
    assert said.startswith("There is no bubblewrap.\nWith --no-jail learners' code runs with your rights")
    make_marker, most_jobs = MARKERS("a seed", is_jailed=False)
    assert (make_marker(3).number, most_jobs) == (3, None)


def test_a_class_that_learners_code_could_read_is_refused(school, tmp_path, monkeypatch, capsys):
    """As where Python's environment was made in the class's folder."""
    school.put("s0")
    monkeypatch.setattr(jail, "_python_folders", lambda: [tmp_path])
    assert school.grade() == 1
    assert f"lies in {tmp_path}, which learners' code can read" in capsys.readouterr().out
    assert school.grade("--no-jail") == 0


def test_inputs_are_drawn_from_a_secret_of_the_class(school, tmp_path):
    """Who knew from what could draw the inputs of all ranks in one of them."""

    def seed(*more):
        assert school.grade("--json", str(school.out / "g.json"), *more) == 0
        return json.loads((school.out / "g.json").read_text())["seed"]

    school.put("s0")
    first = seed()
    assert len(first) == 32
    assert os.name == "nt" or (school.out / ".grades.csv.marks").stat().st_mode & 0o077 == 0
    assert seed() == first
    assert StandIn.seen == []  # the marks were kept
    assert seed("--seed", "another") == "another"
    assert seed("--csv", str(tmp_path / "other.csv")) != first
