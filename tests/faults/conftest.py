"""After every fault: no process and no file is left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from course_lib.ranks import launch


def descendants_but_server() -> list[psutil.Process]:
    """Processes below this one that a run left: all but the fork server itself."""
    server = launch._starter._process.pid if launch._starter else None
    return [process for process in psutil.Process().children(recursive=True) if process.pid != server
            and process.status() != psutil.STATUS_ZOMBIE and _is_of_server(process, server)]  # fmt: skip


def _is_of_server(process: psutil.Process, server: int | None) -> bool:
    """Other tests' processes (a background installation, say) are none of ours."""
    try:
        return any(parent.pid == server for parent in process.parents())
    except psutil.NoSuchProcess:
        return False


def assert_nothing_left(seconds: float = 2.0) -> None:
    until = time.monotonic() + seconds
    while descendants_but_server() and time.monotonic() < until:
        time.sleep(0.02)
    assert descendants_but_server() == []
    assert os.listdir(launch._starter.folder) == []
    assert not list(Path().glob("core*"))


@pytest.fixture
def nothing_left_check():
    """For tests that look more than once."""
    return assert_nothing_left


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    if launch._starter is not None:
        assert_nothing_left()
