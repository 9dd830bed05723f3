"""What a run says, and what it writes into its log.

It gets records, and measures nothing itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

from course_lib import measurements
from course_lib.train.ranks_agree import Machine, count, places
from course_lib.train.records import Outcome, Record, tokens_per_second
from course_lib.train.settings import Settings
from course_lib.utilization import utilization
from course_lib.working_copy import write_atomically

Say = Callable[[str], object]

_BEGINS = b'{"step": '  # each line of a log


def header(settings: Settings, dtype: str, machines: list[Machine], whose: list[str]) -> Iterator[str]:
    """Who runs what, and whose code it is."""
    config, ranks = settings.config, len(machines)
    devices = " and ".join(sorted({machine.device for machine in machines}))
    yield f"{places(machines)}; {devices}, {_threads(machines)}{dtype}"
    yield (f"GPT of {config.layers} layers, {config.hidden} wide, {config.parameters / 1e6:.2f} million "
           "parameters, on bytes of the course's text")  # fmt: skip
    yield (f"a step: {settings.batch} sequences of {settings.sequence} tokens, "
           f"B_eff = {settings.tokens:,} tokens; {ranks} × {settings.micro_batches} micro-batches")
    yield from whose
    if why := why_no_speed(machines):
        yield why


def _threads(machines: list[Machine]) -> str:
    threads = {machine.threads for machine in machines}
    if machines[0].device != "CPU" or len(threads) > 1:
        return ""
    return f"{count(threads.pop(), 'thread')} each, "


def why_no_speed(machines: list[Machine]) -> str:
    """Why tokens per second would mean nothing; "" where they mean something."""
    crowded = next((machine for machine in machines if machine.shares_cores), None)
    if crowded is None:
        return ""
    return (f"no tokens/s and no U: {crowded.ranks_here} ranks share {crowded.cores} cores of {crowded.host} "
            "and take turns")  # fmt: skip


class Journal:
    """Lines and log on rank 0.

    ``peak_flops``: of all ranks together, None for no U.
    """

    def __init__(self, settings: Settings, say: Say, peak_flops: float | None):
        self._settings, self._say = settings, say
        self._flops, self._peak = settings.config.flops_per_token(settings.sequence), peak_flops
        self._since: list[Record] | None = None  # the last line; the first step is slow, and left out

    def step(self, record: Record) -> None:
        if self._since is not None:
            self._since.append(record)
        if self._settings.log is not None:
            with self._settings.log.open("a", encoding="utf-8") as file:
                file.write(record.as_json() + "\n")
        if record.is_skipped:
            self._say(f"step {record.step}: a gradient was not finite in fp16; weights stay, and losses are "
                      "scaled by less")  # fmt: skip
        if record.step % self._settings.print_every == 0 or record.step in (1, self._settings.steps):
            self._say(self._line(record))
            self._since = []
        self._since = self._since or []

    def _line(self, record: Record) -> str:
        steps = self._settings.steps
        text = f"step {record.step:>{len(str(steps))}}/{steps}  loss {record.loss:.4f}  "
        text += f"learning rate {record.learning_rate:.2e}"
        return text + self.speed(tokens_per_second(self._since or []))

    def speed(self, tokens: float | None) -> str:
        if tokens is None:
            return ""
        share = "" if self._peak is None else f"  U {utilization(tokens, self._flops, 1, self._peak):.1%}"
        return f"  {tokens:,.0f} tokens/s{share}"

    def end(self, outcome: Outcome) -> None:
        for line in self._summary(outcome):
            self._say(line)

    def _summary(self, outcome: Outcome) -> Iterator[str]:
        done = outcome.records[-1].step if outcome.records else outcome.resumed_from
        steps = self._settings.steps
        yield f"stopped after step {done} of {steps}" if outcome.is_stopped else f"all {steps} steps are done"
        speed = outcome.tokens_per_second
        if speed is not None:
            yield f"median step:{self.speed(speed)}{self._of_peak()}{_busy(outcome.spread)}"
        if outcome.records:
            yield _noise(outcome, self._settings)
        if outcome.checkpoint is not None:
            yield f"checkpoint: {outcome.checkpoint}"

    def _of_peak(self) -> str:
        return "" if self._peak is None else f" of {self._peak / 1e9:,.0f} GFLOP/s, the peak measured here"


def _busy(spread: float) -> str:
    if spread <= measurements.CALM:
        return ""
    return f" (the machine was busy: steps differ by {spread:.0%}, so take this as the least it can do)"


def _noise(outcome: Outcome, settings: Settings) -> str:
    if not outcome.noise_steps:
        return "noise scale: none, since no gradient of a smaller batch was seen; two micro-batches show one"
    if outcome.noise.scale is None:
        return f"noise scale: none. {outcome.noise.note}"
    if outcome.noise_steps == 1:
        return "noise scale: none, since one step is no average; two or more show one"
    low, high = outcome.noise_interval
    interval = "" if high == math.inf and low == 0 else f" (90%: {_short(low)} to {_short(high)})"
    scale = f"noise scale: {_short(outcome.noise.scale)} sequences{interval}"
    return f"{scale}, from {outcome.noise_steps} steps; a step has {settings.batch}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def begin_log(path: Path | None, resumed_from: int) -> list[str]:
    """Make the file, or keep its lines up to the step that the run is resumed from; what is to be said.

    Lines of steps that are done again go; the file as it was is kept beside it.  Raises ValueError for a file
    that is no log, and OSError.
    """
    if path is None:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab"):
        pass
    if not path.is_file():  # such as /dev/null
        return []
    content = path.read_bytes()
    whole, _, torn = content.rpartition(b"\n")  # what a process that was killed left of its last line
    steps = [_step_in(line, path) for line in whole.splitlines()]
    if not _BEGINS.startswith(torn[: len(_BEGINS)]):
        raise _no_log(path)
    kept = [line for line, step in zip(whole.splitlines(), steps, strict=True) if step <= resumed_from]
    if torn or len(kept) < len(steps):
        before = path.with_name(f"{path.name}.before")
        write_atomically(before, content)
        write_atomically(path, b"".join(line + b"\n" for line in kept))
        return [f"{path} keeps its lines up to step {resumed_from}; as it was, it is {before.name}"]
    return []


def _step_in(line: bytes, path: Path) -> int:
    try:
        record = Record(**json.loads(line))
        return int(record.step)
    except (ValueError, TypeError, KeyError):
        raise _no_log(path) from None


def _no_log(path: Path) -> ValueError:
    return ValueError(
        f"log={str(path)!r} is there, and not all of its lines are those of a log of course train: expected "
        "a new file, or such a log"
    )
