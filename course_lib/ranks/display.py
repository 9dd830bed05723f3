"""What a notebook shows of its ranks: what they printed, live lines, a progress bar for each loop.

Runs in the notebook; it reads files that ranks write, and knows nothing of what they mean.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tqdm

# A browser can't take what a loop in a rank can print; scripts get all of it.
_CHARACTERS_SHOWN_IN_NOTEBOOK = 20_000


_last_output: list[bytes] = []


class Live:
    """Follows the ranks' live files and shows what is new in them."""

    def __init__(self, paths: list[Path]):
        self._paths = paths
        self._read = [0] * len(paths)
        self._bars: dict[int, Any] = {}  # of loops that go on, by number
        self._characters, self._is_cut = 0, False

    def show_new(self) -> None:
        for rank, path in enumerate(self._paths):
            for event in self._new_events(rank, path):
                self._show(rank, event)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()

    def _show_lines(self, rank: int, lines: list[str]) -> None:
        for line in lines:
            self._characters += len(line)
            if not in_notebook():
                with tqdm.tqdm.external_write_mode():  # a line of its own, not one behind the bar
                    _print(f"[rank {rank}] {line}\n")
            elif self._characters <= _CHARACTERS_SHOWN_IN_NOTEBOOK:
                _print(f"[rank {rank}] {line}\n")
            elif not self._is_cut:
                self._is_cut = True
                _print("… more live lines than a notebook can take are left out …\n")

    def _new_events(self, rank: int, path: Path) -> Iterator[dict]:
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read[rank])
            *lines, unfinished = file.read().split(b"\n")
        self._read[rank] += sum(len(line) + 1 for line in lines)
        yield from map(json.loads, lines)

    def _show(self, rank: int, event: dict) -> None:
        if "line" in event:
            self._show_lines(rank, event["line"].splitlines() or [""])
            return
        loop = event["loop"]
        if loop not in self._bars:
            self._bars[loop] = _progress_bar(event["total"], event["description"])
        self._bars[loop].update(event["done"] - self._bars[loop].n)
        if event["is_over"]:
            self._bars.pop(loop).close()


def show_output(paths: list[Path]) -> None:
    """Print what the ranks printed, rank by rank, each line labeled, and keep it for ``output``."""
    global _last_output
    _last_output = [path.read_bytes() if path.exists() else b"" for path in paths]
    limit = _CHARACTERS_SHOWN_IN_NOTEBOOK if in_notebook() else None
    for rank, path in enumerate(paths):
        if path.exists():
            for text in labeled(rank, path, limit):
                _print(text)


def output(rank: int | None = None) -> str:
    """All that the ranks of the last call printed, without labels; of one rank, if it is named.

    Raises ValueError for a rank that was not there.
    """
    if rank is not None and not 0 <= rank < len(_last_output):
        raise ValueError(f"rank={rank!r}: the last run had {len(_last_output)} ranks")
    texts = _last_output if rank is None else [_last_output[rank]]
    return b"".join(texts).decode("utf-8", errors="replace")


def labeled(rank: int, path: Path, limit: int | None = None) -> Iterator[str]:
    """The file's lines with their label; the middle is left out beyond ``limit`` characters."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if limit is None or size <= limit:
            yield from _label(rank, file)
            return
        yield from _label(rank, file.read(limit // 2).splitlines())
        left_out = f"{size - limit:,} characters are left out; ranks.output({rank}) has them all"
        yield f"[rank {rank}] … {left_out} …\n"
        file.seek(size - limit // 2)
        yield from _label(rank, file.read().splitlines())


def in_notebook() -> bool:
    """Whether output goes to a Jupyter front end."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and shell.has_trait("kernel")


def _label(rank: int, lines) -> Iterator[str]:
    for line in lines:
        # What a progress bar overwrote on its line is not worth showing.
        text = line.decode("utf-8", errors="replace").rstrip("\r\n").rpartition("\r")[2]
        yield f"[rank {rank}] {text}\n"


def _progress_bar(total: int | None, description: str) -> Any:
    if in_notebook():
        from tqdm.notebook import tqdm as notebook_bar  # imports ipywidgets: not for every process

        return notebook_bar(total=total, desc=description)
    return tqdm.tqdm(total=total, desc=description, disable=None)  # None: not where nobody looks on


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
