"""Checkpoints: files that are whole or not there, known by their checksum, the newest two of a run.

    write(folder, state)              # step-00000050.checkpoint
    found = newest(folder)            # the newest one that can be used, and what was wrong with newer ones

A file is a line that says what it is, a checksum, and what ``torch.save`` makes of plain data and tensors.
It is written under another name, brought to the disk, and only then renamed, so that whoever is killed on the
way leaves the file before.  Reading runs no code of the file (``weights_only``).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

_MAGIC = b"course train checkpoint, form 1\n"
_OF_ANY_FORM = _MAGIC.partition(b",")[0]
_CHECKSUM_BYTES = 32
_KEPT = 2
_NAME = re.compile(r"step-(\d{8})\.checkpoint")
_UNFINISHED = ".step-"


class Unusable(Exception):
    """A checkpoint that can't be used; str() says why, without the file's name."""


@dataclass(frozen=True)
class State:
    """All that a run needs to go on as if it had not stopped.

    ``settings``: what has to be the same (``Settings.of_a_run``, and what the run rests on besides).
    ``random``: torch's random state on each rank, on the CPU and, where there is one, on its GPU.
    """

    step: int
    settings: dict
    weights: dict
    optimizer: dict
    scaler: dict
    random: list[list[torch.Tensor]]


_KINDS = {
    "step": int, "settings": dict, "weights": dict, "optimizer": dict, "scaler": dict, "random": list,
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """``content``: of the file at ``path``; both None without a checkpoint.  ``remarks``: a line each."""

    path: Path | None
    content: bytes | None
    remarks: list[str]


@contextlib.contextmanager
def held(folder: Path, seconds: float) -> Iterator[None]:
    """While open, no other run has the folder, which is made.  Wait for a run that ends for ``seconds``.

    Raises Unusable where another run has it for longer, and OSError where nothing can be written.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"can be written")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder / ".lock", timeout=seconds))
        except NotImplementedError:  # a disk without locks
            pass
        except Timeout:
            raise Unusable(f"Another run writes its checkpoints to {folder}, and goes on: end it first, or "
                           "take another --checkpoint folder.") from None  # fmt: skip
        yield


def write(folder: Path, state: State) -> Path:
    """Write a checkpoint, and then remove all but the newest two.  Raises OSError, and leaves those there."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(vars(state), buffer)
    payload = buffer.getbuffer()
    path = folder / f"step-{state.step:08}.checkpoint"
    _write_to_disk(path, _MAGIC, hashlib.sha256(payload).digest(), payload)
    for old in _files(folder)[_KEPT:]:
        old.unlink(missing_ok=True)
    return path


def newest(folder: Path) -> Found:
    """The newest checkpoint that is whole.  Files that are not are put aside, and what was wrong is said.

    Raises Unusable where there are files, and none of them is whole.
    """
    remarks = []
    for path in _files(folder):
        try:
            content = path.read_bytes()
            state_of(content)
        except (OSError, Unusable) as problem:
            remarks.append(f"{path.name} is not used: {_reason(problem)}.")
            continue
        for refused in _files(folder)[: len(remarks)]:
            refused.replace(refused.with_name(f"{refused.name}.refused"))
        return Found(path, content, remarks)
    if remarks:
        raise Unusable(" ".join([f"No checkpoint in {folder} can be used.", *remarks,
                                 "Move them away to begin with step 1."]))  # fmt: skip
    return Found(None, None, [])


def newest_step(folder: Path) -> int | None:
    """By the names alone; None where there is no checkpoint."""
    files = _files(folder)
    return _step_of(files[0]) if files else None


def state_of(content: bytes) -> State:
    """What a checkpoint holds.  Raises Unusable for what is none, or not a whole one."""
    if not content.startswith(_MAGIC):
        if content.startswith(_OF_ANY_FORM):
            raise Unusable("it was written by another version of the course")
        raise Unusable("it is not a checkpoint of course train" if content else "it is empty")
    payload = content[len(_MAGIC) + _CHECKSUM_BYTES :]
    if hashlib.sha256(payload).digest() != content[len(_MAGIC) :][:_CHECKSUM_BYTES]:
        raise Unusable("it is damaged or only a part, since its checksum does not fit")
    try:
        state = State(**torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True))
    except Exception as error:  # a right checksum does not say who has made it
        raise Unusable(f"it can't be read ({type(error).__name__})") from None
    if wrong := [name for name, kind in _KINDS.items() if not isinstance(getattr(state, name), kind)]:
        raise Unusable(f"it can't be read (it has no {wrong[0]})")
    return state


def require_same_run(path: Path, there: dict, here: dict) -> None:
    """Raises Unusable, with all that differs, for a checkpoint of a run with other settings."""
    names = [name for name in here if there.get(name) != here[name]]
    if names:
        differing = ", ".join(f"{name}={there.get(name)!r} there and {here[name]!r} here" for name in names)
        raise Unusable(
            f"{path} is of another run: {differing}. Resume with the same settings, or take another folder."
        )


def _reason(problem: Exception) -> str:
    return problem.strerror or "it can't be read" if isinstance(problem, OSError) else str(problem)


def _files(folder: Path) -> list[Path]:
    """The newest first."""
    found = [path for path in folder.iterdir() if _step_of(path) >= 0] if folder.is_dir() else []
    return sorted(found, key=_step_of, reverse=True)


def _step_of(path: Path) -> int:
    """-1 for a file of another kind."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def _write_to_disk(path: Path, *parts: bytes | memoryview) -> None:
    for left in path.parent.glob(f"{_UNFINISHED}*"):  # by a process that was killed
        left.unlink(missing_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(unfinished, 0o644)  # mkstemp's files are for their owner alone
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    _bring_to_disk(path.parent)


def _bring_to_disk(folder: Path) -> None:
    """The folder's entries, so that the new name outlasts a power failure.  Windows can't, and need not."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
