"""A Jupyter kernel for tests: run cells in it, as JupyterLab does, and see all that they show."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
from jupyter_client import BlockingKernelClient, KernelManager


@dataclass
class Shown:
    """What a cell showed: its output streams, the value of its last expression, and its error, as text."""

    stdout: str = ""
    stderr: str = ""
    value: str = ""
    error: str = ""
    displayed: list[dict] = field(default_factory=list)


class Kernel:
    def __init__(self, manager: KernelManager, client: BlockingKernelClient):
        self.manager, self.client = manager, client

    def run(self, cell: str, seconds: float = 60) -> Shown:
        return self.collect(self.start(cell), seconds)

    def start(self, cell: str) -> str:
        return self.client.execute(cell)

    def collect(self, request: str, seconds: float = 60) -> Shown:
        shown = Shown()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.5)
                if message["parent_header"].get("msg_id") == request and self._add(shown, message):
                    return shown
        raise TimeoutError(f"the cell did not end within {seconds} s; so far: {shown}")

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.manager.provisioner.pid).children(recursive=True)

    @staticmethod
    def _add(shown: Shown, message: dict) -> bool:
        """Add one message; True when the cell has ended."""
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            setattr(shown, content["name"], getattr(shown, content["name"]) + content["text"])
        elif kind == "execute_result":
            shown.value = content["data"]["text/plain"]
        elif kind == "display_data":
            shown.displayed.append(content["data"])
        elif kind == "error":
            shown.error = "\n".join(content["traceback"])
        return kind == "status" and content["execution_state"] == "idle"


@contextlib.contextmanager
def kernel(**environment: str) -> Iterator[Kernel]:
    import os

    manager = KernelManager()
    manager.start_kernel(env={**os.environ, **environment})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def gone(processes: list[psutil.Process], seconds: float = 2.0) -> bool:
    """Whether all of them end within the time; who is dead and waits to be buried has ended."""
    until = time.monotonic() + seconds
    while any(_is_alive(process) for process in processes) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(_is_alive(process) for process in processes)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
