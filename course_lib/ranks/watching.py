"""One call of ``ranks.run``, seen from the notebook: prepare files, watch the ranks, say what went wrong.

Stands on ``run_files`` (all that is shared with ranks), ``logbook`` and ``report``; the processes are a
Starter's affair.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from course_lib.links import Links
from course_lib.ranks import display, logbook, network, payload, report
from course_lib.ranks.devices import Devices
from course_lib.ranks.diagnosis import RankView
from course_lib.ranks.errors import RanksError
from course_lib.ranks.own_time import OwnTime
from course_lib.ranks.run_files import RunFiles, import_path

_SECONDS_TO_START = 120
# The ranks' own seconds.  After a failure: until the others have come to where they wait.
_SECONDS_FOR_OTHERS = 2.0
_SECONDS_FOR_STACKS = 1.0


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a run is ended: seconds without progress, seconds in all, bytes printed by all ranks together.

    Seconds are the ranks' own: where others keep the cores busy, those for which ranks have them.
    """

    without_progress: float
    total: float = math.inf
    printed: int = 1 << 28


class Starter(Protocol):
    """What starts and ends the processes: ForkServer or FreshProcesses."""

    folder: Path  # runs get their folders in it

    @property
    def is_usable(self) -> bool: ...

    def import_beforehand(self, modules: Iterable[str]) -> None: ...

    def start(self, folder: Path, ranks: int) -> None: ...

    def dump_stacks(self, folder: Path) -> None: ...

    def end(self, folder: Path) -> None: ...

    def close(self) -> None: ...


class Run:
    """The ranks of one call."""

    def __init__(self, starter: Starter, files: RunFiles, ranks: int, limits: Limits, plain: bool = False):
        self._starter = starter
        self._files = files
        self._ranks = range(ranks)
        self._limits = limits
        self._read = payload.read_plain if plain else payload.read
        self._has_gpus = False
        self._books: list[logbook.Logbook] = []
        self._live = display.Live([files.live(rank) for rank in self._ranks])

    def prepare(
        self, found: Devices, links: Links | None, function: Callable, args: tuple, kwargs: dict
    ) -> None:
        """Write all that the ranks will read."""
        self._has_gpus = found.kind == "cuda"
        rank_links = links.of_ranks(len(self._ranks)) if links else []
        is_real = links is not None and links.is_real
        if is_real:
            network.write(self._files.links, rank_links)
        elif links:
            self._files.pacing.touch()
        settings = {
            "ranks": len(self._ranks),
            "device": found.kind,
            "threads": found.threads,
            "environment": {**os.environ, **found.environment},
            "working_folder": _working_folder(),
            "path": import_path(),
            "pacing": [] if is_real else [[link.rate, link.latency] for link in rank_links],
        }
        self._files.settings.write_text(json.dumps(settings))
        try:
            payload.write(self._files.call, (function, args, kwargs), "the function with its arguments")
        except payload.CannotSend as error:
            name = payload.culprit(function, args, kwargs)
            raise payload.CannotSend(f"{error} ({name})" if name else str(error)) from None
        for rank in self._ranks:
            logbook.create(self._files.logbook(rank))
            self._books.append(logbook.Logbook(self._files.logbook(rank)))

    def results(self) -> list[Any]:
        """Start the ranks and return what they return; whatever happens, they are gone afterwards."""
        __tracebackhide__ = True
        where = ""
        try:
            self._starter.start(self._files.folder, len(self._ranks))
            error = self._watch()
        except KeyboardInterrupt:
            with uninterrupted():
                where = report.where_they_were(self._records())
            raise
        finally:
            with uninterrupted(), contextlib.ExitStack() as at_last:  # whatever comes before raises
                for book in self._books:
                    at_last.callback(book.close)
                at_last.callback(print, where, end="")
                at_last.callback(self._show_output)
                self._starter.end(self._files.folder)
        if error is not None:
            raise error
        return [self._read(self._files.result(rank)) for rank in self._ranks]

    def _watch(self) -> RanksError | None:
        """Wait until all have returned, or return the error that says why they won't."""
        began, own_time = time.monotonic(), OwnTime(self._books)
        last_progress = running_since = 0.0
        progress = -1
        while True:
            self._live.show_new()
            if self._any_failed():
                return self._failure()
            if all(book.state == logbook.RETURNED for book in self._books):
                return None
            now, seen = own_time.seconds(), sum(book.progress for book in self._books)
            if seen != progress:
                progress, last_progress = seen, now
            if now - last_progress > self._patience():
                return self._ended(report.hang, self._limits.without_progress)
            if self._is_starting():
                running_since = now
            if now - running_since > self._limits.total:
                return self._ended(report.endless, self._limits.total)
            if not self._starter.is_usable:
                return RanksError("The process that starts ranks was ended, and the ranks with it.")
            if self._printed_bytes() > self._limits.printed:
                limit = f"{self._limits.printed >> 20} MiB"
                return RanksError(f"The ranks printed more than {limit}, so the run was ended.")
            _pause(time.monotonic() - began)

    def _ended(self, why: Callable[..., RanksError], limit: float) -> RanksError | None:
        """The report of a run that is ended; None if it came to its end by itself at the last moment."""
        records = self._records()
        return None if all(each.view.status == "returned" for each in records) else why(records, limit)

    def _patience(self) -> float:
        """Starting is not the function's fault: it may take a while, on a busy machine or without a fork."""
        limit = self._limits.without_progress
        return max(limit, _SECONDS_TO_START) if self._is_starting() else limit

    def _is_starting(self) -> bool:
        return any(book.state == logbook.STARTING for book in self._books)

    def _any_failed(self) -> bool:
        return any(book.state == logbook.FAILED or book.exit_status is not None for book in self._books)

    def _failure(self) -> RanksError:
        """Let the other ranks come to where they wait, so that the report is complete and always the same."""
        own_time = OwnTime(self._books)
        quiet_since, progress = 0.0, -1
        while (now := own_time.seconds()) < _SECONDS_FOR_OTHERS:
            seen = sum(book.progress for book in self._books)
            if seen != progress:
                quiet_since, progress = now, seen
            settled = all(self._status(rank) not in ("starting", "running") for rank in self._ranks)
            if settled and now - quiet_since > 0.1:
                break
            _pause(0)
        return report.failure(self._records())

    def _records(self) -> list[report.RankRecord]:
        # Before stacks are asked for: the signal may interrupt what a rank waits for.
        records = [self._record(rank) for rank in self._ranks]
        if any(record.view.status == "running" for record in records):
            self._collect_stacks()
        return [
            dataclasses.replace(record, stack=report.parse_stack(self._stack_text(record.rank)))
            for record in records
        ]

    def _collect_stacks(self) -> None:
        """Ask the ranks for their stacks, and wait a moment for those that can answer."""
        self._starter.dump_stacks(self._files.folder)
        own_time = OwnTime(self._books)
        while own_time.seconds() < _SECONDS_FOR_STACKS and not all(map(self._stack_text, self._ranks)):
            _pause(0)
        time.sleep(0.05)  # a stack is written line by line

    def _record(self, rank: int) -> report.RankRecord:
        book, status = self._books[rank], self._status(rank)
        waits_in = book.waits_in
        if status == "waiting" and waits_in is None:
            status = "running"  # a rank of a run without end goes on between the two looks
        view = RankView(rank, status, book.operations(), waits_in, self._has_gpus)
        if status != "raised":
            return report.RankRecord(view, exit_status=book.exit_status if status == "died" else None)
        return report.RankRecord(view, failure=self._failure_of(rank), exception=self._exception_of(rank))

    def _failure_of(self, rank: int) -> dict:
        path = self._files.failure(rank)
        return self._read(path) if path.exists() else report.noted_failure(self._books[rank].note)

    def _exception_of(self, rank: int) -> BaseException | None:
        try:
            return self._read(self._files.exception(rank))
        except Exception:  # not sent, or its class refuses to be rebuilt here; the report has its text
            return None

    def _status(self, rank: int) -> str:
        book = self._books[rank]
        if book.state == logbook.FAILED:
            return "raised"
        if book.exit_status is not None:
            return "died"
        if book.state == logbook.RUNNING:
            return "waiting" if book.waits_in else "running"
        return "returned" if book.state == logbook.RETURNED else "starting"

    def _stack_text(self, rank: int) -> str:
        path = self._files.stack(rank)
        return path.read_text(errors="replace") if path.exists() else ""

    def _printed_bytes(self) -> int:
        paths = [name(rank) for rank in self._ranks for name in (self._files.output, self._files.live)]
        return sum(path.stat().st_size for path in paths if path.exists())

    def _show_output(self) -> None:
        self._live.show_new()
        self._live.close()
        display.show_output([self._files.output(rank) for rank in self._ranks])


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise RanksError("The working folder was deleted. Change to another one with os.chdir.") from None


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C and Jupyter's interrupt while ranks are ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if before is not None:  # None: something outside Python had set it
            signal.signal(signal.SIGINT, before)


def _pause(elapsed: float) -> None:
    """Short at first, so that short runs end at once; longer later, to leave the cores to the ranks."""
    time.sleep(min(0.02, 0.001 + elapsed / 20))
