"""A class's folder: all that students hand in ends with a line for each exercise; nothing else is read."""

import io
import json
import os
import stat
import zipfile

import pytest

from course_lib.classroom import pile, zip_file
from course_lib.classroom.roster import gather, read_class
from course_lib.classroom.student_names import file_stem, readable, shown
from course_lib.classroom.submission import answer_cells
from tests.classroom.classes import notebook

EXERCISES = ["00_exchange", "03_ring_all_reduce"]
FILE = "00_exchange.ipynb"


def students(folder):
    return {each.name: gather(each, EXERCISES) for each in read_class(folder)[0]}


def only(folder):
    [student] = students(folder).values()
    return student


def statuses(student):
    return [work.status or "to mark" for work in student.work]


def answer(work):
    return answer_cells(work.filled.notebook)["neighbors"]


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def zipped(members):
    """A zip file with members by name; a ZipInfo may stand for a name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_folders_notebooks_and_zips_are_students(tmp_path):
    put(tmp_path / "anna" / "deep" / "er" / FILE, notebook("00"))
    put(tmp_path / "bert.ipynb", notebook("03"))
    put(tmp_path / "carla.zip", zipped({f"my course/{FILE}": notebook("00")}))
    put(tmp_path / "README.txt", b"")
    put(tmp_path / ".grades.csv.marks" / FILE, notebook("00"))
    found, others = read_class(tmp_path)
    assert [each.name for each in found] == ["anna", "bert", "carla"]
    assert others == ["README.txt"]
    every = students(tmp_path)
    assert statuses(every["anna"]) == statuses(every["carla"]) == ["to mark", "missing"]
    assert statuses(every["bert"]) == ["missing", "to mark"]
    assert every["anna"].work[0].file == f"anna/deep/er/{FILE}"
    assert every["carla"].work[0].file == f"carla.zip: my course/{FILE}"


def test_what_is_written_beside_is_no_student(tmp_path):
    put(tmp_path / "anna.ipynb", notebook("00"))
    put(tmp_path / "reports" / "class.html", b"")
    put(tmp_path / "grades.csv", b"")
    found, others = read_class(tmp_path, [tmp_path / "reports", tmp_path / "grades.csv"])
    assert ([each.name for each in found], others) == (["anna"], [])


def test_a_folder_a_notebook_and_a_zip_of_one_name_are_one_student(tmp_path):
    put(tmp_path / "anna" / FILE, notebook("00"))
    put(tmp_path / "anna.zip", zipped({"03_ring_all_reduce.ipynb": notebook("03")}))
    assert statuses(only(tmp_path)) == ["to mark", "to mark"]


@pytest.mark.parametrize("what", ["empty", "a file", "nothing"])
def test_a_class_without_students_is_refused(tmp_path, what):
    folder = tmp_path / "class"
    if what == "empty":
        folder.mkdir()
    elif what == "a file":
        folder.write_text("")
    with pytest.raises(ValueError, match="expected a folder"):
        read_class(folder)


def test_checkpoints_and_what_macos_adds_are_left_out(tmp_path):
    put(tmp_path / "anna" / FILE, notebook("00"))
    put(tmp_path / "anna" / ".ipynb_checkpoints" / FILE, notebook("00", "old"))
    hidden = {f"__MACOSX/._{FILE}": b"\0", f".ipynb_checkpoints/{FILE}": notebook("00", "old")}
    put(tmp_path / "bert.zip", zipped({FILE: notebook("00")} | hidden))
    for student in students(tmp_path).values():
        assert (answer(student.work[0]), student.remarks, student.work[0].remarks) == ("right", (), ())


def test_lessons_are_handed_in_along_with_the_exercises(tmp_path):
    lesson = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}).encode()
    put(tmp_path / "anna" / FILE, notebook("00"))
    put(tmp_path / "anna" / "01_memory_wall.ipynb", lesson)
    assert only(tmp_path).remarks == ()
    put(tmp_path / "anna" / "notes.ipynb", lesson)
    [remark] = only(tmp_path).remarks
    assert remark.startswith("anna/notes.ipynb: It holds no answer cell of any exercise.")


def test_of_two_notebooks_the_one_with_the_exercises_name_counts(tmp_path):
    put(tmp_path / "anna" / FILE, notebook("00", "this"))
    put(tmp_path / "anna" / "00_exchange-Copy1.ipynb", notebook("00", "that"))
    work = only(tmp_path).work[0]
    assert answer(work) == "this"
    assert work.remarks == (
        f"anna/00_exchange-Copy1.ipynb: Not marked, since anna/{FILE} has the exercise's name.",
    )


@pytest.mark.parametrize("names", [("a.ipynb", "b.ipynb"), (f"x/{FILE}", f"y/{FILE}")])
def test_of_two_different_notebooks_none_is_guessed(tmp_path, names):
    for name in names:
        put(tmp_path / "anna" / name, notebook("00", name))
    work = only(tmp_path).work[0]
    assert (work.status, work.filled) == ("tampered", None)
    assert work.message.startswith("2 different notebooks are of this exercise: ")


def test_two_equal_notebooks_are_no_question(tmp_path):
    put(tmp_path / "anna" / "a.ipynb", notebook("00"))
    put(tmp_path / "anna" / "b.ipynb", notebook("00") + b"\n")
    assert statuses(only(tmp_path))[0] == "to mark"


def twice_the_same_id():
    content = json.loads(notebook("00"))
    content["cells"].append(next(cell for cell in content["cells"] if cell["id"] == "neighbors"))
    return json.dumps(content).encode()


UNUSABLE = {
    "not JSON": (b"print('hello')", "It is not a notebook: its text is not JSON."),
    "nested": (b"[" * 100_000, "It is not a notebook: its text is not JSON."),
    "wrong nbformat": (b'{"nbformat": 3, "worksheets": []}', "Its nbformat is 3, not 4."),
    "no cells": (b'{"nbformat": 4}', "its cells can't be read"),
    "an id twice": (twice_the_same_id(), "Two cells have the grade_id neighbors: delete one of them."),
    "too large": (b" " * (21 << 20), "It is larger than 20 MB."),
}


@pytest.mark.parametrize("content, sentence", UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_of_which_no_exercise_can_be_made_is_a_line(tmp_path, content, sentence):
    put(tmp_path / "anna" / FILE, content)
    student = only(tmp_path)
    assert statuses(student) == ["tampered", "missing"]
    assert sentence in student.work[0].message and student.work[0].file == f"anna/{FILE}"
    assert student.remarks == ()
    # Without a name that tells, it may be any exercise.
    (tmp_path / "anna" / FILE).rename(tmp_path / "anna.ipynb")
    (tmp_path / "anna").rmdir()
    student = only(tmp_path)
    assert statuses(student) == ["tampered", "tampered"]
    assert sentence in student.work[0].message and sentence in student.remarks[0]


def test_a_200_mb_notebook_is_not_read(tmp_path):
    put(tmp_path / "anna" / FILE, b"")
    os.truncate(tmp_path / "anna" / FILE, 200 << 20)
    assert "It is larger than 20 MB." in only(tmp_path).work[0].message


def test_a_usable_notebook_counts_beside_an_unusable_one(tmp_path):
    put(tmp_path / "anna" / FILE, b"no JSON")
    put(tmp_path / "anna" / "mine.ipynb", notebook("00"))
    put(tmp_path / "anna" / "notes.ipynb", b"no JSON")
    student = only(tmp_path)
    assert statuses(student) == ["to mark", "missing"]
    assert student.work[0].remarks == (f"anna/{FILE}: It is not a notebook: its text is not JSON.",)
    assert student.remarks == ("anna/notes.ipynb: It is not a notebook: its text is not JSON.",)


@pytest.mark.parametrize("place", ["anna", "anna.ipynb", "anna.zip", f"anna/{FILE}", "anna/more"])
def test_links_are_not_followed(tmp_path, place):
    target = tmp_path / "elsewhere" / FILE
    put(target, zipped({FILE: notebook("00")}) if place.endswith(".zip") else notebook("00"))
    link = tmp_path / "class" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(target.parent if link.suffix == "" else target)
    student = only(tmp_path / "class")
    assert student.name == "anna" and student.to_mark == ()
    assert student.work[0].status == "tampered"
    assert "It is a link, which is not followed." in student.work[0].message


def test_a_pipe_in_place_of_a_notebook_holds_nobody_up(tmp_path):
    (tmp_path / "anna").mkdir()
    os.mkfifo(tmp_path / "anna" / FILE)
    assert "It is no regular file." in only(tmp_path).work[0].message


def test_a_folder_that_can_not_be_read_is_a_line(tmp_path, monkeypatch):
    put(tmp_path / "anna" / FILE, notebook("00"))

    def refuse(folder):
        raise PermissionError(13, "Permission denied")

    [anna] = read_class(tmp_path)[0]
    monkeypatch.setattr(pile, "entries", refuse)
    student = gather(anna, EXERCISES)
    assert student.remarks == ("anna: It can't be read: Permission denied.",)


def test_too_many_files_and_notebooks_end_somewhere(tmp_path, monkeypatch):
    for number in range(8):
        put(tmp_path / "anna" / f"{number}.ipynb", b"no JSON")
    monkeypatch.setattr(pile, "_MOST_NOTEBOOKS", 3)
    assert "More than 3 notebooks" in only(tmp_path).remarks[-1]
    monkeypatch.setattr(pile, "_MOST_ENTRIES", 3)
    assert "More than 3 files" in only(tmp_path).remarks[-1]


def test_folders_in_folders_have_no_end(tmp_path):
    path = tmp_path / "anna"
    for _ in range(300):
        path /= "a"
    put(path / FILE, notebook("00"))
    assert statuses(only(tmp_path))[0] == "to mark"


def link_member():
    member = zipfile.ZipInfo(FILE)
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


def encrypted():
    content = bytearray(zipped({FILE: notebook("00")}))
    content[6] |= 1  # in the member's head
    content[content.rindex(b"PK\1\2") + 8] |= 1  # in the directory
    return bytes(content)


def packed_otherwise():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(FILE, notebook("00"))
    return file.getvalue()


def damaged():
    content = bytearray(zipped({FILE: notebook("00")}))
    content[2000:2010] = bytes(10)
    return bytes(content)


BAD_ZIPS = {
    "It holds a path that leads out of it.": [
        lambda: zipped({f"../{FILE}": notebook("00")}),
        lambda: zipped({f"a/../../{FILE}": b"{}"}),
        lambda: zipped({f"/tmp/{FILE}": notebook("00")}),
        lambda: zipped({f"C:\\{FILE}": notebook("00")}),
        lambda: zipped({f"..\\{FILE}": notebook("00")}),
        lambda: zipped({"../x.txt": b"", FILE: notebook("00")}),
    ],
    "It is a link, which is not followed.": [lambda: zipped({link_member(): "/etc/passwd"})],
    "It asks for a password.": [encrypted],
    "It is packed in a way that is not used here.": [packed_otherwise],
    "It is no zip file, or a broken one.": [
        damaged, lambda: zipped({FILE: notebook("00")})[:-30], lambda: b"hello"
    ],
    "it is larger than 200 MB.": [lambda: zipped({f"{n}.ipynb": bytes(21 << 20) for n in range(10)})],
    "It holds more than 5000 files.": [lambda: zipped({f"{n}.txt": b"" for n in range(5001)})],
}  # fmt: skip


@pytest.mark.parametrize(
    "sentence, make", [(sentence, make) for sentence, makers in BAD_ZIPS.items() for make in makers]
)
def test_bad_zips_are_refused(tmp_path, sentence, make):
    put(tmp_path / "class" / "anna.zip", make())
    before = sorted(tmp_path.rglob("*"))
    student = only(tmp_path / "class")
    assert student.to_mark == () and student.work[0].status == "tampered"
    assert sentence in student.work[0].message
    assert sorted(tmp_path.rglob("*")) == before


def test_a_bomb_of_one_member_is_read_up_to_its_limit(tmp_path):
    put(tmp_path / "anna.zip", zipped({FILE: b" " * (21 << 20)}))
    assert "It is larger than 20 MB." in only(tmp_path).work[0].message


def test_a_zip_whose_directory_lies_about_sizes_is_refused(tmp_path):
    content = bytearray(zipped({FILE: b" " * (30 << 20)}))
    at = content.rindex(b"PK\1\2") + 24
    content[at : at + 4] = (1000).to_bytes(4, "little")
    put(tmp_path / "anna.zip", bytes(content))
    assert only(tmp_path).to_mark == ()


def test_a_large_zip_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(zip_file, "LARGEST_ZIP", 1 << 20)
    put(tmp_path / "anna.zip", bytes(2 << 20))
    assert "It is larger than 1 MB." in only(tmp_path).work[0].message


def test_two_members_of_one_name_are_not_guessed(tmp_path):
    with zipfile.ZipFile(tmp_path / "anna.zip", "w") as archive:
        archive.writestr(FILE, notebook("00", "this"))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(FILE, notebook("00", "that"))
    assert statuses(only(tmp_path))[0] == "tampered"


def test_marks_depend_on_answers_and_not_on_outputs(tmp_path):
    put(tmp_path / "anna" / FILE, notebook("00"))
    before = only(tmp_path).digest()
    content = json.loads(notebook("00"))
    content["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1.0"}]
    put(tmp_path / "anna" / FILE, json.dumps(content).encode())
    assert only(tmp_path).digest() == before
    put(tmp_path / "anna" / FILE, notebook("00", "another \ud800"))
    assert only(tmp_path).digest() != before


NAMES = ["anna", "\x1b[31mred", "\u202egnp.exe", "x" * 200, "<script>alert(1)<", "=1+1", "a\\n", "名"]


def test_names_are_shown_safely_and_have_files_of_their_own():
    for name in NAMES:
        assert shown(name).isprintable()
        assert file_stem(name).isascii() and len(file_stem(name)) < 60
    assert len({file_stem(name) for name in [*NAMES, "Anna", "ANNA"]}) == len(NAMES) + 2
    assert shown("a\n") != shown("a\\n")
    assert readable("one\ntwo\x1b[0m \ud800\r") == "one\ntwo\\x1b[0m \\ud800\\r"


def test_a_name_that_is_no_text_is_a_student(tmp_path):
    os.makedirs(os.fsencode(tmp_path) + b"/\xff\x1b[2J")
    [student] = read_class(tmp_path)[0]
    assert student.name == "\\udcff\\x1b[2J"
