"""docs/instructor/mutation.md: which mistakes the checks refuse, and which they let pass."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import groupby

from course_lib.machine import usable_cores
from course_lib.working_copy import COURSE_ROOT
from tools.mutation.explained import reason
from tools.mutation.results import Result

REPORT = COURSE_ROOT / "docs" / "instructor" / "mutation.md"
_HOW = ("wrong", "way", "error", "hang")
_LONGEST = 120  # characters of a line of code


def refused(found: Sequence[Result]) -> float:
    """The share that is refused of the mutants that differ from the solution."""
    killed = sum(not each.survived for each in found)
    missed = sum(each.is_missed for each in found)
    return killed / (killed + missed) if killed + missed else 0.0


def summary(found: Sequence[Result], of: int) -> str:
    """In one sentence; ``of``: how many mutants there are, judged or not."""
    missed = sum(each.is_missed for each in found)
    alike = sum(each.survived and not each.differs for each in found)
    return (
        f"{len(found):,} of {of:,} mutants judged: {len(found) - missed - alike:,} refused, {missed} missed, "
        f"{alike} like the solution; {_per_cent(found)} of those that differ are refused"
    )


def _per_cent(found: Sequence[Result]) -> str:
    return f"{100 * refused(found):.1f}%"


def text(found: Sequence[Result], of: int) -> str:
    """The whole report, of results in the order of exercises and answers."""
    return "\n".join([
        _HEAD.format(date=date.today().isoformat(), summary=summary(found, of), cores=usable_cores(),
                     python=platform.python_version()),
        *_table(found), "", *_by_operator(found), "",
        "## Missed", "", *(_list(each for each in found if each.is_missed) or ["None."]), "",
        "## Like the solution", "", _ALIKE,
        *_list(each for each in found if each.survived and not each.differs), "",
    ])  # fmt: skip


_HEAD = """# Proof of the checks: one mistake at a time

A check is worth what it refuses. So each solution is given one mistake after another, by its syntax tree:
another comparison, another operator, a number one off, an index or a bound of a range one off, arguments or
elements or neighboring statements swapped, a condition negated or left out, a call, an argument, a division
or a whole statement left out (each `wait` among them), left and right swapped, send and receive swapped, a
statement moved into a loop or out of it. Each of these mutants is checked as a learner's answer is, by the
exercise's own check cells. It is refused if its share is below 1.0.

Those that survive are played on other inputs than the check's: other world sizes (6 and 7 ranks among them),
other shapes, layouts, types and numbers. If results, arguments, or messages and bytes where the part judges
them, are the same as the solution's, the mutant is no mistake. If not, the check has missed one.

**{summary}.**

Made on {date} (Python {python}, {cores} cores) by `python -m tools.mutate_solutions`, and written by
`python -m tools.mutate_solutions --report`. A run without progress was ended after 2 s in place of 5 s, since
a mutant that hangs does so each time. *Wrong* results are those that differ from what was expected; *way* is
a right result, but by messages that are not waited for, bytes that are not needed, or an order that NCCL does
not forgive. A function that later parts call (`neighbors`, `pass_on`) may be refused by one of their checks:
that is *later*.
"""
_ALIKE = """These mutants give what the solution gives, on all inputs tried. The reason stands beside each.
"""


def _table(found: Sequence[Result]) -> list[str]:
    lines = [
        "| exercise | part | mutants | wrong | way | error | hang | of these later | like the solution "
        "| missed | refused |",
        "|---|---|" + 9 * "---:|",
    ]
    for (exercise, answer), group in groupby(found, key=lambda each: (each.exercise, each.answer)):
        lines.append(f"| {exercise[:2]} | `{answer}` {_counts([*group])}")
    return [*lines, f"| all | {_counts(found)}"]


def _counts(found: Sequence[Result]) -> str:
    how = Counter(each.how for each in found)
    later = sum(not each.survived and each.check not in _own(each) for each in found)
    alike = sum(each.survived and not each.differs for each in found)
    missed = sum(each.is_missed for each in found)
    numbers = (len(found), *(how[name] for name in _HOW), later, alike, missed)
    return f"| {' | '.join(f'{number:,}' for number in numbers)} | {_per_cent(found)} |"


def _own(result: Result) -> tuple[str, ...]:
    """The checks right after an answer: its own, and NCCL's rules for the last function of messages."""
    last = result.answer in ("exchange", "ring")
    return (f"check_{result.answer}", *(["check_ready_for_nccl"] if last else []))


def _by_operator(found: Sequence[Result]) -> list[str]:
    lines = ["| mistake | mutants | refused | like the solution | missed |", "|---|" + 4 * "---:|"]
    counts = Counter(each.operator for each in found)
    for operator, count in counts.most_common():
        of_it = [each for each in found if each.operator == operator]
        alike = sum(each.survived and not each.differs for each in of_it)
        missed = sum(each.is_missed for each in of_it)
        lines.append(f"| {operator} | {count} | {count - alike - missed} | {alike} | {missed} |")
    return lines


def _list(found: Iterable[Result]) -> list[str]:
    lines: list[str] = []
    for (exercise, answer), group in groupby(found, key=lambda each: (each.exercise, each.answer)):
        lines.append(f"{exercise[:2]}, `{answer}`:\n")
        for each in group:
            why = reason(each.answer, each.operator, each.before, each.after)
            seen = f" Seen in {each.differs}." if each.differs else ""
            lines.append(
                f"- {each.operator}: {_code(each.before)} → {_code(each.after)}.{seen} {why or _UNSAID}"
            )
        lines.append("")
    return lines


_UNSAID = "(Not explained yet.)"


def _code(line: str) -> str:
    return f"`{line[:_LONGEST]}{'…' if len(line) > _LONGEST else ''}`"
