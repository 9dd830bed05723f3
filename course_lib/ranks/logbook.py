"""A rank's logbook: what it does right now, readable by others even after it died.

Each rank keeps one memory-mapped file.  It holds a state, a progress counter, and a circular list of the
communication operations that it posted.  Because the file is shared memory, the notebook and the other
ranks can read it while the rank hangs inside C++ code, holds Python's lock, or is gone.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib.ranks.frames import is_on_behalf

# What a rank is doing, as one byte.
STARTING, RUNNING, RETURNED, FAILED = 0, 1, 2, 3
# How far an operation has come.
CALLING, POSTED, WAITING, DONE, BROKEN, WITHDRAWN = 0, 1, 2, 3, 4, 5  # calling: torch may still refuse it;
# broken: its wait raised; withdrawn: never begun

RECORDS = 512  # older operations are overwritten
RECORD_BYTES = 2048
_FIELD = struct.Struct("<Q")
# Offsets of the fields before the records: waits in (index + 1), exit status (+ 1000), 0 if there is none.
_STATE, _PROGRESS, _COUNT, _WAITS_IN, _EXIT, _NOTE = 0, 8, 16, 24, 32, 40
_NOTE_BYTES = 900
_ON_BEHALF_WAITS_IN = 944  # as waits in, of a thread that works on the main thread's behalf
_PID = 952
_RECORDS_START = 1024
# index + 1, stage, line of the wait, number in its channel, channel, signature, length of the text
_HEAD = struct.Struct("<QIIQIII")
_STAGE = struct.Struct("<II")  # stage and line of the wait, inside a head
_STAGE_OFFSET = 8
FILE_BYTES = _RECORDS_START + RECORDS * RECORD_BYTES


@dataclass(frozen=True)
class Operation:
    """One communication operation of one rank.

    ``channel`` names what it is matched with: a directed pair of ranks (and tag) for messages, a group for
    collectives; ``number`` counts the operations of that channel on this rank, from 0.  The operation of
    another rank with the same channel and number is its counterpart.  ``signature`` is what both must
    agree on.  ``peers`` are the global ranks that it needs; ``description`` is text for people.
    """

    kind: str  # send, recv, all_reduce, ...
    channel: str
    number: int
    signature: str
    description: str
    peers: tuple[int, ...]
    file: str
    line: int
    function: str
    stage: int = POSTED
    wait_line: int = 0  # the line that waits for it, once one does

    @property
    def is_message(self) -> bool:
        return self.kind in ("send", "recv")

    @property
    def is_pending(self) -> bool:
        return self.stage in (CALLING, POSTED, WAITING)


@dataclass(frozen=True)
class Head:
    """The part of a record that is compared often, without reading its text."""

    index: int
    stage: int
    number: int
    channel: int  # checksum of the channel's name
    signature: int  # checksum of the signature


def checksum(text: str) -> int:
    """The same in every process, unlike ``hash``."""
    return zlib.crc32(text.encode())


def create(path: Path) -> None:
    """An empty logbook.  Its space is taken at once: a full disk must not keep a rank from saying so."""
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, FILE_BYTES)
        file.truncate(FILE_BYTES)


def note_exit(path: Path, status: int) -> None:
    """Note how the rank's process ended, unless the run is over and its logbook gone."""
    with contextlib.suppress(OSError):
        book = Logbook(path)
        book.set_exit_status(status)
        book.close()


class Logbook:
    """One rank's logbook, for writing (by that rank alone) or for reading (by anyone)."""

    def __init__(self, path: Path):
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), FILE_BYTES)
        self._lock = threading.Lock()  # ranks may communicate from several threads

    def close(self) -> None:
        self._memory.close()

    @property
    def state(self) -> int:
        return self._read(_STATE)

    @property
    def progress(self) -> int:
        return self._read(_PROGRESS)

    @property
    def count(self) -> int:
        """Operations posted so far."""
        return self._read(_COUNT)

    @property
    def pid(self) -> int:
        """Of the rank's process, as that process sees it; 0 before it has begun."""
        return self._read(_PID)

    @property
    def exit_status(self) -> int | None:
        """The exit code of the rank's process, or minus the signal that ended it; None while it lives."""
        status = self._read(_EXIT)
        return status - 1000 if status else None

    @property
    def note(self) -> str:
        """What the rank left as its last words where a file could not be written."""
        return self._memory[_NOTE : _NOTE + _NOTE_BYTES].rstrip(b"\0").decode(errors="replace")

    @property
    def waits_in(self) -> Operation | None:
        """The operation that the rank's main thread waits in, or a thread that works on its behalf."""
        index = self._read(_WAITS_IN) or self._read(_ON_BEHALF_WAITS_IN)
        return self.operation(index - 1) if index else None

    def set_pid(self, pid: int) -> None:
        _FIELD.pack_into(self._memory, _PID, pid)

    def set_exit_status(self, status: int) -> None:
        _FIELD.pack_into(self._memory, _EXIT, status + 1000)

    def leave_note(self, text: str) -> None:
        data = text.encode()[:_NOTE_BYTES]
        self._memory[_NOTE : _NOTE + len(data)] = data

    @contextlib.contextmanager
    def waiting(self, index: int) -> Iterator[None]:
        """While the block runs, this thread waits in an operation.  Other threads' waits are not noted."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main and not is_on_behalf():
            yield
            return
        field = _WAITS_IN if is_main else _ON_BEHALF_WAITS_IN
        _FIELD.pack_into(self._memory, field, index + 1)
        try:
            yield
        finally:
            _FIELD.pack_into(self._memory, field, 0)

    def set_state(self, state: int) -> None:
        _FIELD.pack_into(self._memory, _STATE, state)
        self.advance()

    def advance(self) -> None:
        """Note progress."""
        _FIELD.pack_into(self._memory, _PROGRESS, self.progress + 1)

    def post(self, operation: Operation) -> int:
        """Note a new operation and return its index."""
        text = _encode(operation)
        with self._lock:
            index = self.count
            offset = _offset(index)
            head = (
                index + 1, operation.stage, operation.wait_line, operation.number,
                checksum(operation.channel), checksum(operation.signature), len(text),
            )  # fmt: skip
            # First, so that a reader of the older text sees that it is no longer that.
            _HEAD.pack_into(self._memory, offset, *head)
            self._memory[offset + _HEAD.size : offset + _HEAD.size + len(text)] = text
            # Last, so that a reader who sees the count sees the record.
            _FIELD.pack_into(self._memory, _COUNT, index + 1)
            self.advance()
        return index

    def set_stage(self, index: int, stage: int, wait_line: int = 0) -> None:
        """Note how far an operation has come, unless its record has been overwritten."""
        offset = _offset(index)
        with self._lock:
            if _HEAD.unpack_from(self._memory, offset)[0] == index + 1:
                _STAGE.pack_into(self._memory, offset + _STAGE_OFFSET, stage, wait_line)
            self.advance()

    def head(self, index: int) -> Head | None:
        """The head of an operation's record; None once it has been overwritten."""
        written, stage, _, number, channel, signature, _ = _HEAD.unpack_from(self._memory, _offset(index))
        return Head(index, stage, number, channel, signature) if written == index + 1 else None

    def operation(self, index: int) -> Operation | None:
        """An operation as it stands; None once its record has been overwritten."""
        offset = _offset(index)
        written, stage, wait_line, number, _, _, length = _HEAD.unpack_from(self._memory, offset)
        text = self._memory[offset + _HEAD.size : offset + _HEAD.size + length]
        # Again, since a rank that goes on may have begun to overwrite the text while it was copied.
        if written != index + 1 or self._read(offset) != written:
            return None
        fields = json.loads(text)
        fields["peers"] = tuple(fields["peers"])
        return Operation(**fields, stage=stage, number=number, wait_line=wait_line)

    def operations(self) -> list[Operation]:
        """All operations whose records are still there, oldest first."""
        count = self.count
        found = (self.operation(index) for index in range(max(0, count - RECORDS), count))
        return [operation for operation in found if operation is not None]

    def _read(self, field: int) -> int:
        return _FIELD.unpack_from(self._memory, field)[0]


def _offset(index: int) -> int:
    return _RECORDS_START + (index % RECORDS) * RECORD_BYTES


def _encode(operation: Operation) -> bytes:
    """The operation's text fields, cut so that they fit into a record."""
    fields = {
        "kind": operation.kind,
        "channel": operation.channel[:200],
        "signature": operation.signature[:150],
        "description": operation.description[:150],
        "peers": operation.peers[:64],
        "file": operation.file[-250:],
        "line": operation.line,
        "function": operation.function[:60],
    }
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) > RECORD_BYTES - _HEAD.size:  # many bytes a character: keep what the report needs most
        text = json.dumps({**fields, "file": "", "channel": ""}, ensure_ascii=False).encode()
    return text
