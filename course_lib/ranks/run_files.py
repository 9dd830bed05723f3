"""The folder of one run: all that the notebook and its ranks tell each other stands in these files.

Files survive their writer, so what a rank printed and did can still be read after it was killed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFiles:
    """Names of the files in a run's folder."""

    folder: Path

    @property
    def settings(self) -> Path:
        """How the ranks are to be set up (JSON)."""
        return self.folder / "settings.json"

    @property
    def call(self) -> Path:
        """The function and its arguments (pickle)."""
        return self.folder / "call"

    @property
    def store(self) -> Path:
        """torch.distributed's rendezvous; a file needs no port."""
        return self.folder / "store"

    @property
    def links(self) -> Path:
        """The real links that the ranks are to have; not there without any."""
        return self.folder / "links"

    @property
    def network(self) -> Path:
        """Where the ranks find their ends of these links."""
        return self.folder / "network"

    @property
    def pacing(self) -> Path:
        """Times of messages, where links are paced in software."""
        return self.folder / "pacing"

    def logbook(self, rank: int) -> Path:
        return self.folder / f"logbook.{rank}"

    def output(self, rank: int) -> Path:
        """What the rank printed, to stdout and stderr."""
        return self.folder / f"output.{rank}"

    def live(self, rank: int) -> Path:
        """Lines and progress to be shown at once (JSON lines)."""
        return self.folder / f"live.{rank}"

    def stack(self, rank: int) -> Path:
        """Stacks written by faulthandler, on request or when the rank crashes."""
        return self.folder / f"stack.{rank}"

    def result(self, rank: int) -> Path:
        """What the function returned (pickle); written before the logbook says so."""
        return self.folder / f"result.{rank}"

    def failure(self, rank: int) -> Path:
        """What the function raised (pickle); written before the logbook says so."""
        return self.folder / f"failure.{rank}"

    def exception(self, rank: int) -> Path:
        """The exception itself (pickle), where it can be sent."""
        return self.folder / f"exception.{rank}"


def import_path() -> list[str]:
    """This process's ``sys.path``, as text; Python itself passes over entries that are none."""
    return [entry for entry in sys.path if isinstance(entry, str)]
