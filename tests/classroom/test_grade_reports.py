"""Pages for a class: with hints, without solutions, nothing from elsewhere, and names that do no harm."""

import json
import re
from html.parser import HTMLParser

import pytest

from course_lib.classroom import exercise_text, grade_reports, solution, submission
from course_lib.classroom.marks import (
    CRASH,
    MISSING,
    PASS,
    TAMPERED,
    WRONG,
    CaseMark,
    ExerciseMark,
    PartMark,
    StudentMark,
    from_plain,
    to_plain,
)
from course_lib.classroom.submission import answer_cells, check_cells, master

EVIL = "<script>alert('x')</script>&<img src=x onerror=alert(1)>"
MISTAKE = "Left and right are swapped."


def exercise_mark(name, status=PASS, mistake="", message="", file="x.ipynb"):
    parts = tuple(
        PartMark(part, float(status == PASS), 1.0, status, message, mistake,
                 (CaseMark("N=2", float(status == PASS), status, 0.5, message),) if message else ())
        for part in check_cells(master(name))
    )  # fmt: skip
    return ExerciseMark(name, file, parts)


def student(name, **statuses):
    """``student("anna", e00=WRONG)``: the other exercises were not handed in."""
    exercises = tuple(
        exercise_mark(exercise, statuses[f"e{exercise[:2]}"], MISTAKE if statuses[f"e{exercise[:2]}"] == WRONG
                      else "", f"{name} was here")
        if f"e{exercise[:2]}" in statuses
        else exercise_mark(exercise, MISSING, file="")
        for exercise in submission.exercises()
    )  # fmt: skip
    return StudentMark(name, exercises)


class Page(HTMLParser):
    """What tags a page has, with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.text += " " if tag in ("td", "div", "p") else ""

    def handle_data(self, data):
        self.text += data

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def page(marks, name):
    return Page(grade_reports.pages(marks)[grade_reports.page_of(name)])


def class_page(marks):
    return Page(grade_reports.pages(marks)[grade_reports.CLASS_PAGE])


def test_a_part_that_is_not_right_shows_what_was_seen_and_its_hints():
    seen = page([student("anna", e00=WRONG)], "anna")
    assert "anna was here" in seen.text and MISTAKE in seen.text
    assert seen.count("details") == 8  # the hints of exercise 00
    assert "Hint 2: where the message goes" in seen.text and "irecv needs a tensor to fill" in seen.text
    assert "Expected output" not in seen.text


def test_a_part_that_is_right_shows_no_hints():
    seen = page([student("anna", e00=PASS)], "anna")
    assert seen.count("details") == 0 and "4 of 4 points" in seen.text


def test_every_check_has_its_title_and_most_have_hints():
    texts = [exercise_text.read(master(name)) for name in submission.exercises()]
    for name, text in zip(submission.exercises(), texts, strict=True):
        assert text.title.startswith(f"Exercise {name[:2]} · ")
        assert list(text.parts) == list(check_cells(master(name)))
        assert [part.title[:8] for part in text.parts.values()] == [
            f"Part {number} ·" for number in range(1, len(text.parts) + 1)
        ]
    without = [part.title for text in texts for part in text.parts.values() if not part.hints]
    assert len(without) < 8


def test_no_page_holds_a_line_of_a_solution():
    everything = {f"e{name[:2]}": WRONG for name in submission.exercises()}
    text = page([student("anna", **everything)], "anna").text
    assert text.count("Hint") > 50
    for name in submission.exercises():
        given = {line.strip() for line in "\n".join(answer_cells(master(name)).values()).splitlines()}
        [path] = solution.SOLUTIONS.glob(f"{name}.ipynb")
        cells = answer_cells(json.loads(path.read_bytes())).values()
        lines = {line.strip() for cell in cells for line in cell.splitlines()} - given
        shown = [line for line in lines if len(line) > 30 and not line.startswith("#") and line in text]
        assert shown == []


def test_names_and_messages_are_text():
    mark = StudentMark(EVIL, (exercise_mark("00_exchange", WRONG, EVIL, EVIL, EVIL),), (EVIL,))
    pages = grade_reports.pages([mark])
    for text in pages.values():
        seen = Page(text)
        assert seen.count("script") == seen.count("img") == 0
        assert seen.text.count(EVIL) >= 2
    assert all(re.fullmatch(r"[a-z0-9A-Z-]+\.html", name) for name in pages)


def test_pages_take_nothing_from_elsewhere():
    marks = [student("anna", e00=WRONG, e04=WRONG)]
    for text in grade_reports.pages(marks).values():
        for _, attributes in Page(text).tags:
            assert "src" not in attributes and not attributes.get("href", "").startswith(("http", "//"))
        assert "url(" not in text and "@import" not in text


def test_pages_do_not_depend_on_seconds():
    def slower(mark):
        text = json.dumps(to_plain(mark)).replace('"seconds": 0.5', '"seconds": 7.0')
        return from_plain(json.loads(text))

    mark = student("anna", e00=WRONG)
    assert slower(mark) != mark
    assert grade_reports.pages([mark]) == grade_reports.pages([slower(mark)])


@pytest.fixture
def a_class():
    return [
        student("anna", e00=PASS, e01=PASS, e03=WRONG),
        student("bert", e00=WRONG),
        student("carla", e00=WRONG, e01=CRASH),
        student("dora"),
    ]


def test_the_class_page_says_who_is_where(a_class):
    text = " ".join(class_page(a_class).text.split())
    assert "Exercise 00 · Exchange with both neighbors 1 bert" in text
    assert "Exercise 03 · Ring all-reduce 1 anna" in text
    assert "none yet 1 dora" in text


def test_the_class_page_counts_mistakes_by_name_else_by_status(a_class):
    text = " ".join(class_page(a_class).text.split())
    of_part = "Exercise 00 · Exchange with both neighbors: Part 1 · Who are my neighbors?"
    assert f"{of_part} 2 {MISTAKE} bert, carla" in text
    assert "Exercise 01 · Memory: Part 1 · The bytes of a module 1 Crashed. carla" in text
    assert "Not begun." not in text


def test_the_class_page_links_to_every_student_and_shows_points(a_class):
    pages = grade_reports.pages(a_class)
    links = {attributes["href"] for tag, attributes in class_page(a_class).tags if tag == "a"}
    assert links == set(pages) - {"class.html"}
    assert "4 students" in class_page(a_class).text


@pytest.mark.parametrize("mark, shown", [
    (exercise_mark("00_exchange"), "4"),
    (exercise_mark("00_exchange", WRONG), "0"),
    (exercise_mark("00_exchange", CRASH), "0"),  # of the learner's code
    (exercise_mark("00_exchange", CRASH, file=""), "– !"),  # of marking
    (exercise_mark("00_exchange", MISSING, file=""), "–"),
    (exercise_mark("00_exchange", TAMPERED), "0 !"),
])  # fmt: skip
def test_a_cell_says_points_and_what_to_look_at(mark, shown):
    assert Page(grade_reports._share_cell(mark)).text.strip() == shown


def test_a_share_is_darker_the_larger_it_is_and_its_number_can_be_read():
    from course_lib.palette import relative_luminance

    shades = [relative_luminance(grade_reports._mixed("#243CAD", share / 10)) for share in range(11)]
    assert shades == sorted(shades, reverse=True) and shades[0] > 0.99
    for shade in shades:
        black, white = (shade + 0.05) / 0.05, 1.05 / (shade + 0.05)
        assert max(black, white) >= 4.5  # WCAG 2.1, AA


def test_a_file_that_can_not_be_used_is_said_once():
    exercise = exercise_mark("00_exchange", TAMPERED, file="anna.ipynb")
    mark = StudentMark("anna", (exercise,), ("It is a link.",))
    seen = page([mark], "anna")
    assert seen.text.count("changed or unusable") == 1 and seen.text.count("It is a link.") == 1
    assert "It is a link." in class_page([mark]).text
