"""What went wrong in a run, as text for people.

The first cause comes first, the other ranks follow in one small table.  The text is the same on every run
of the same program: no cell numbers, file paths, process numbers or times.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from itertools import groupby

from course_lib.ranks.diagnosis import RankView, explain, names
from course_lib.ranks.errors import RankFailed, RanksHung, RankState
from course_lib.ranks.frames import Line, folded, inside_function, is_library, line_at
from course_lib.ranks.logbook import Operation

_SIGNALS = {
    "SIGKILL": "was killed (SIGKILL): the system does this when memory runs out",
    "SIGSEGV": "crashed (SIGSEGV, a segmentation fault)",
    "SIGABRT": "was aborted (SIGABRT): gloo may do this when a message does not fit its tensor",
    "SIGBUS": "crashed (SIGBUS): shared memory or a mapped file is too small",
    "SIGTERM": "was ended (SIGTERM)",
}


# Lines that faulthandler could not read say "???" in place of a number; they are passed over.
_STACK_LINE = re.compile(r'^  File "(?P<file>.*)", line (?P<number>\d+) in (?P<function>.*)$', re.MULTILINE)


@dataclass(frozen=True)
class RankRecord:
    """All that one rank left behind.  ``failure`` is what rank_process wrote, if the function raised."""

    view: RankView
    exit_status: int | None = None
    failure: dict | None = None
    exception: BaseException | None = None
    stack: tuple[Line, ...] = ()  # innermost first

    @property
    def rank(self) -> int:
        return self.view.rank


def failure(records: list[RankRecord]) -> RankFailed:
    """The error for a run in which a rank raised or died."""
    states = [_state(record) for record in records]
    first = min(records, key=_order_of_causes)
    alike = [
        r for r in records if _order_of_causes(r)[0] == _order_of_causes(first)[0] and _same_cause(r, first)
    ]
    text = [_cause(first, [r.rank for r in alike])]
    rest = [state for state in states if state.rank not in {r.rank for r in alike}]
    if rest and not _is_mismatch(first):
        text += ["", _table(rest)]
        if any(state.status == "waiting" for state in rest):
            text += ["", "That other ranks wait, or lose their connection, is a consequence."]
    return RankFailed("\n".join(text), states, first.exception)


def hang(records: list[RankRecord], seconds: float) -> RanksHung:
    """The error for a run in which nothing went on for so many seconds."""
    return _hung(records, f"No rank made progress for {seconds:g} s, so the run was ended.")


def endless(records: list[RankRecord], seconds: float) -> RanksHung:
    """The error for a run that made progress, but no end within so many seconds."""
    return _hung(records, f"The ranks did not end within {seconds:g} s, so the run was ended.")


def noted_failure(note: str) -> dict:
    """What a rank that could write no file left in its logbook, in the form of a failure."""
    kind, _, message = note.partition(": ")
    flags = {"is_transport": False, "is_mismatch": False}
    return {"type": kind or "an exception", "message": message, "lines": [], "details": [], **flags}


def _hung(records: list[RankRecord], said: str) -> RanksHung:
    states = [_state(record) for record in records]
    sentence = explain([record.view for record in records])
    return RanksHung("\n".join([said, "", _table(states), *(["", sentence] if sentence else [])]), states)


def where_they_were(records: list[RankRecord]) -> str:
    """For a run that was interrupted."""
    return f"Interrupted. The ranks were here:\n\n{_table([_state(record) for record in records])}\n"


def parse_stack(text: str) -> tuple[Line, ...]:
    """faulthandler's text: the lines of the thread that runs the learner's code, innermost first."""
    threads = [
        [_parse_line(match) for match in _STACK_LINE.finditer(part)] for part in text.split("hread 0x")
    ]
    learners = [
        lines for lines in threads if any(not is_library(line.file) for line in inside_function(lines))
    ]
    chosen = (learners or [lines for lines in threads if lines] or [[]])[-1]
    return tuple(inside_function(chosen))


def _parse_line(match: re.Match) -> Line:
    return line_at(match["file"], int(match["number"]), match["function"])


def _order_of_causes(record: RankRecord) -> tuple[int, int]:
    """Who died without a word comes before who raised; a broken connection is always a consequence."""
    if record.exit_status is not None:
        return 0, record.rank
    if record.failure is not None:
        return (3 if record.failure["is_transport"] else 1), record.rank
    return 9, record.rank


def _same_cause(one: RankRecord, other: RankRecord) -> bool:
    if one.failure is None or other.failure is None:
        return (one.failure is other.failure) and one.exit_status == other.exit_status
    keys = ("type", "message", "lines")
    return all(one.failure[key] == other.failure[key] for key in keys)


def _is_mismatch(record: RankRecord) -> bool:
    return record.failure is not None and record.failure["is_mismatch"]


def _cause(record: RankRecord, ranks: list[int]) -> str:
    if record.exit_status is not None:
        death = f"{names(ranks, capital=True)} {_death(record.exit_status, len(ranks))}"
        return ", ".join(filter(None, (death, _learners_line(record))))
    failure = record.failure
    assert failure is not None, f"rank {record.rank} neither died nor raised"
    if failure["is_mismatch"]:
        return failure["message"]
    text = [f"{names(ranks, capital=True)} {_raised(failure)}"]
    text += [f"  {line}" for line in folded(failure["lines"])]
    text += [f"  {line}" for detail in failure["details"] for line in detail.splitlines()]
    return "\n".join(text)


def _raised(failure: dict) -> str:
    if failure["type"] == "SystemExit":
        return f"called sys.exit({failure['message']}) instead of returning"
    return f"raised {failure['type']}: {failure['message']}".removesuffix(": ")


def _state(record: RankRecord) -> RankState:
    rank, view, failure = record.rank, record.view, record.failure
    if record.exit_status is not None:
        return RankState(rank, "died", _death(record.exit_status, 1), _learners_line(record))
    if failure is not None:
        if failure["is_transport"] and view.broken_in:
            # Whether gloo noticed the end of the other rank already is a matter of luck.
            return RankState(rank, "waiting", *_waiting(view.broken_in))
        doing = "lost its connection to another rank" if failure["is_transport"] else _raised(failure)
        lines = [line for line in failure["lines"] if not is_library(line.file)]
        return RankState(rank, "raised", doing, str(lines[-1]) if lines else "")
    if view.status == "waiting":
        return RankState(rank, "waiting", *_waiting(view.waiting_in))
    if view.status == "returned":
        return RankState(rank, "returned", _returned(view))
    if view.status == "starting":
        return RankState(rank, "starting", "was connecting to the other ranks")
    return RankState(rank, "running", "was running", _learners_line(record))


def _waiting(operation: Operation) -> tuple[str, str]:
    is_later = operation.wait_line != operation.line and not is_library(operation.file)
    posted = f" (posted in line {operation.line})" if is_later else ""
    return f"waits in {operation.description}{posted}", _learners(operation.file, operation.wait_line)


def _returned(view: RankView) -> str:
    open_ones = [operation for operation in view.operations if operation.is_pending]
    if not open_ones:
        return "returned"
    return f"returned without waiting for its {open_ones[0].description}"


def _death(status: int, ranks: int) -> str:
    if status >= 0:
        itself = "itself" if ranks == 1 else "themselves"
        return f"ended {itself} with exit code {status} before the function returned"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    text = _SIGNALS.get(name, f"was ended by {name}")
    return text if ranks == 1 else text.replace("was ", "were ", 1)


def _learners_line(record: RankRecord) -> str:
    """Where it was: from its stack, else the last operation it posted."""
    for line in record.stack:
        if not is_library(line.file):
            return str(line)
    if record.exit_status is not None and record.view.operations:
        last = record.view.operations[-1]
        after = _learners(last.file, last.line)
        return f"after {after}" if after else ""
    return ""


def _learners(file: str, number: int) -> str:
    """A line of the learner's; "" for the course's own, which says nothing to who has started a command."""
    return "" if is_library(file) else str(line_at(file, number))


def _table(states: list[RankState]) -> str:
    """Ranks in the same state share a row."""
    key = lambda state: (state.doing, state.line)  # noqa: E731
    first_of = {key(state): state.rank for state in reversed(states)}
    groups = groupby(sorted(states, key=lambda state: (first_of[key(state)], state.rank)), key)
    rows = [("rank", "was", "in")] + [
        (", ".join(str(state.rank) for state in group), doing, line) for (doing, line), group in groups
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(
        f"{ranks:>{widths[0]}}  {doing:<{widths[1]}}  {line}".rstrip() for ranks, doing, line in rows
    )
