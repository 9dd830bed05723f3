"""What an exercise's master says to learners, for reports: its title, and each part's title and hints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.classroom.submission import check_cells

# Other folded text, such as "Expected output", is no hint.
_HINT = re.compile(r"<details>\s*<summary>\s*(Hint[^<]*)</summary>(.*?)</details>", re.DOTALL)
_TITLE, _PART_TITLE = re.compile(r"^# (.+)$", re.MULTILINE), re.compile(r"^## (.+)$", re.MULTILINE)
_MINUTES = re.compile(r" \([^()]*minutes[^()]*\)$")


@dataclass(frozen=True)
class Hint:
    """A hint's title, and its text as HTML: of ours, so it can be trusted."""

    title: str
    html: str


@dataclass(frozen=True)
class PartText:
    """One part: its title, and the hints that stand before its check cell."""

    title: str
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class ExerciseText:
    """An exercise's title, and its parts by the names of their check cells."""

    title: str
    parts: dict[str, PartText]


def read(master: dict) -> ExerciseText:
    """The texts in a master, which is a notebook as plain data."""
    texts: list[str] = []  # since the last check cell
    everything: list[str] = []
    parts = {}
    checks = check_cells(master)
    for cell in master["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if cell["cell_type"] == "markdown":
            texts.append("".join(cell["source"]))
        elif grade_id in checks:
            parts[grade_id] = _part(grade_id, "\n\n".join(texts))
            everything += texts
            texts = []
    [title] = _TITLE.findall("\n\n".join(everything))[:1] or ["Exercise"]
    return ExerciseText(title, parts)


def _part(name: str, text: str) -> PartText:
    title = _MINUTES.sub("", (_PART_TITLE.findall(text) or [name])[-1])
    return PartText(title, tuple(Hint(title.strip(), _html(hint)) for title, hint in _HINT.findall(text)))


def _html(markdown: str) -> str:
    """As in the notebook; formulas stay as they are written."""
    from nbconvert.filters.markdown_mistune import markdown2html_mistune  # takes a second

    return markdown2html_mistune(markdown.strip())
