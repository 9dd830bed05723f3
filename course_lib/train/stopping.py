"""Ending a run early and in order: after a step that all ranks have done, with a checkpoint.

Stands on Python's signals; ``starting`` and ``command`` say what a request does.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator

from course_lib.ranks import torchrun

_SECONDS_OF_ONE_REQUEST = 1.0  # torchrun passes on a Ctrl-C that the ranks may have got themselves


@contextlib.contextmanager
def on_signals(request: Callable[[], object]) -> Iterator[None]:
    """While open, the first SIGTERM or Ctrl-C calls ``request``; another one ends the process.

    Not so another SIGTERM for a rank of torchrun, which may get it from Slurm and, late, from its agent: it
    is writing its checkpoint then.  Both have SIGKILL for what takes too long.

    In the main thread only, as Python has it.
    """
    began = None

    def handle(number: int, frame: object) -> None:
        nonlocal began
        if began is None:
            began = time.monotonic()
            request()
        elif number == signal.SIGTERM and torchrun.is_here():
            pass
        elif time.monotonic() - began > _SECONDS_OF_ONE_REQUEST:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: something outside Python had set it
                signal.signal(number, handler)
