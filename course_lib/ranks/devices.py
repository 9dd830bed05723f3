"""Which device the ranks get: a GPU each, leased for the run, or the CPU with its cores shared out.

Not yet run on a machine with GPUs; its logic is tested with lists of GPUs made up by the tests.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from course_lib.machine import usable_cores
from course_lib.ranks.errors import RanksError

KINDS = ("auto", "cpu", "cuda")
_SECONDS_BETWEEN_TRIES = 0.2
_SECONDS_BEFORE_MESSAGE = 1.0


def backend(kind: str) -> str:
    """torch.distributed's backends for ranks on devices of this kind; tensors on the CPU always have gloo."""
    return "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo"


@dataclass(frozen=True)
class Devices:
    """``kind`` is ``cpu`` or ``cuda``; ``threads`` is for each rank; ``environment`` is added to theirs."""

    kind: str
    threads: int
    environment: dict[str, str]


def device_kind(ranks: int, device: str = "auto") -> str:
    """``cuda`` where each of so many ranks can have a GPU for itself, else ``cpu``.

    A sweep over several numbers of ranks should keep one kind: ask for the largest number and hand the
    answer to each ``ranks.run(..., device=...)``.  The variable COURSE_DEVICE decides what ``auto`` means.
    Raises ValueError for an unknown kind, or if ``cuda`` is asked for and there are too few GPUs.
    """
    return "cuda" if _gpus_for(ranks, device) else "cpu"


def _gpus_for(ranks: int, device: str) -> list[str]:
    """The GPUs of which each rank can have one; none where ranks use the CPU.  Raises as ``device_kind``."""
    if device not in KINDS:
        raise ValueError(f"device={device!r}: expected one of {', '.join(map(repr, KINDS))}")
    wanted = os.environ.get("COURSE_DEVICE", "auto") if device == "auto" else device
    if wanted not in KINDS:
        raise ValueError(f"COURSE_DEVICE={wanted!r}: expected one of {', '.join(map(repr, KINDS))}")
    if wanted == "cpu":
        return []
    there, chosen = _gpus_there(), os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible_among(there, chosen)
    if wanted == "cuda" and len(gpus) < ranks:
        asked = "COURSE_DEVICE=cuda" if device == "auto" else "device='cuda'"
        said = f"{asked} with {ranks} ranks needs {ranks} GPUs; this process can use {len(gpus)}"
        raise ValueError(said + _about_parts(there, chosen))
    return gpus if len(gpus) >= ranks else []


def _about_parts(there: list[str], chosen: str | None) -> str:
    """What a name in CUDA_VISIBLE_DEVICES is that no GPU has."""
    for name in _names(chosen or ""):
        if not name.lstrip("-").isdigit() and not any(gpu.startswith(name) for gpu in there):
            return (
                f". CUDA_VISIBLE_DEVICES names {name!r}, no whole GPU of this machine. A part of one "
                "(MIG) can't be leased; COURSE_DEVICE=cpu takes no GPU"
            )
    return ""


@contextlib.contextmanager
def leased(ranks: int, device: str, timeout: float) -> Iterator[Devices]:
    """The devices for one run.  GPUs are leased until the block ends, so that notebooks take turns."""
    threads = max(1, usable_cores() // ranks)
    found = _gpus_for(ranks, device)
    # The ranks of one machine meet on it: neither backend must listen on a network.
    environment = {"GLOO_SOCKET_IFNAME": loopback(), "NCCL_SOCKET_IFNAME": loopback()}
    if not found:
        yield Devices("cpu", threads, environment)
        return
    with _lease(found, ranks, timeout) as gpus:
        # By UUID, which is the same GPU for CUDA and for nvidia-smi in whatever order each counts them.
        yield Devices("cuda", threads, {**environment, "CUDA_VISIBLE_DEVICES": ",".join(gpus)})


def visible_gpus() -> list[str]:
    """UUIDs of the NVIDIA GPUs that this process may use, without starting CUDA in it."""
    return visible_among(_gpus_there(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def _gpus_there() -> list[str]:
    """UUIDs of all NVIDIA GPUs of this machine, in the order of their places on its PCI bus."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # installed, but without a driver or a GPU
        return []
    return listed.split()


def visible_among(gpus: list[str], chosen: str | None) -> list[str]:
    """What CUDA_VISIBLE_DEVICES leaves: indices or beginnings of UUIDs, up to the first bad one.

    Indices count as nvidia-smi does.  CUDA itself does so with CUDA_DEVICE_ORDER=PCI_BUS_ID alone, and else
    counts the fastest first.
    """
    if chosen is None:
        return gpus
    visible = []
    for name in _names(chosen):
        matches = (
            gpus[int(name) : int(name) + 1] if name.isdigit() else [g for g in gpus if g.startswith(name)]
        )
        if len(matches) != 1:
            break
        visible += matches
    return visible


def _names(chosen: str) -> list[str]:
    return [name.strip() for name in chosen.split(",") if name]


def loopback() -> str:
    """The name of the loopback interface."""
    return "lo" if "lo" in (name for _, name in socket.if_nameindex()) else "lo0"


@contextlib.contextmanager
def _lease(gpus: list[str], count: int, timeout: float) -> Iterator[list[str]]:
    """``count`` of the GPUs, each for this process alone."""
    locks = _wait_for_locks(gpus, count, timeout)
    try:
        yield list(locks)
    finally:
        for lock in locks.values():
            lock.close()


def _wait_for_locks(gpus: list[str], count: int, timeout: float) -> dict[str, BinaryIO]:
    began, told = time.monotonic(), False
    while True:
        locks = _take_locks(gpus, count)
        if locks is not None:
            return locks
        waited = time.monotonic() - began
        if waited > timeout:
            raise RanksError(f"Waited {timeout:g} s for {count} free GPUs: other notebooks use them.")
        if waited > _SECONDS_BEFORE_MESSAGE and not told:
            print(f"Waiting for {count} free GPUs: other notebooks use them.", flush=True)
            told = True
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _take_locks(gpus: list[str], count: int) -> dict[str, BinaryIO] | None:
    """Locks on ``count`` GPUs, or none at all: who holds a few while waiting for more blocks others."""
    locks: dict[str, BinaryIO] = {}
    for gpu in gpus:
        lock = _try_lock(gpu)
        if lock is not None:
            locks[gpu] = lock
        if len(locks) == count:
            return locks
    for lock in locks.values():
        lock.close()
    return None


def _try_lock(gpu: str) -> BinaryIO | None:
    """An open file whose lock ends with this process, however it ends; None if another one holds it."""
    import fcntl

    # One file for all users of the machine; readable is enough to lock it.
    path = Path(tempfile.gettempdir()) / f"course-gpu-{gpu}.lock"
    with contextlib.suppress(FileExistsError):
        new = os.open(path, os.O_CREAT | os.O_EXCL)
        os.fchmod(new, 0o644)  # whatever this user's umask is
        os.close(new)
    file = path.open("rb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
