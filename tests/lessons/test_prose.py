"""What holds for the text of every notebook, lesson or exercise."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("exercises/solutions/*.ipynb")])
NUMBERED = re.compile(r"\s*(\d+)[.)] ")


def numbers_taken_for_list_items(text):
    """Lines in the midst of a paragraph that begin like "1. ", which JupyterLab shows as an item of a list.

    A list itself begins after an empty line, and its numbers follow each other.
    """
    found, next_number, is_first, in_fence = [], None, True, False
    for line in text.splitlines():
        in_fence ^= line.lstrip().startswith("```")
        number = None if in_fence else NUMBERED.match(line)
        if number and not is_first and int(number[1]) != next_number:
            found.append(line)
        if number or not line.strip():
            next_number = int(number[1]) + 1 if number else None
        is_first = not line.strip()
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_no_line_looks_like_an_item_of_a_list_by_accident(path):
    texts = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    assert [line for text in texts for line in numbers_taken_for_list_items(text)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("its sum is complete, on rank\n1. Which rank sends it?", 1),
        ("- a mean over nothing, and it is\n  0. Each rank has one.", 1),
        ("The two ranks, 0 and\n1) Both of them", 1),
        ("1. One\n2. Two, which ends\n   here\n3. Three\n\n1. Again", 0),
        ("1. One, and there are\n7. Not so many.", 1),
        ("In lesson\n1.5 GB", 0),
        ("An empty line before it:\n\n1. One", 0),
        ("```text\nrank\n1. what a cell prints\n```", 0),
    ],
)
def test_what_is_taken_for_an_item(text, found):
    assert len(numbers_taken_for_list_items(text)) == found
