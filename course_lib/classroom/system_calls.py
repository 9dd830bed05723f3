"""System calls that nothing in a jail may use: a filter (seccomp) that the processes of a jail inherit.

They make memory that belongs to no process, so that no limit of a process counts it: a learner's code could
fill the machine with it.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

# By machine: its number for the kernel, and those of memfd_create, memfd_secret, shmget, msgget, semget and
# io_uring_setup.
_FORBIDDEN = {
    "x86_64": (0xC000003E, (319, 447, 29, 68, 64, 425)),
    "aarch64": (0xC00000B7, (279, 447, 194, 186, 190, 425)),
}
_OTHER_FORM = 0x40000000  # from here on x86_64 has a second number for each call
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _MACHINE = 0, 4  # where they stand in what the filter sees
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_PR_SET_SECCOMP, _MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def forbid() -> None:
    """Refuse them to this process and all that it starts, for good.  Raises OSError where that can't be."""
    if platform.machine() not in _FORBIDDEN:
        raise OSError(f"the numbers of system calls of {platform.machine()} are not known")
    code = _filter(*_FORBIDDEN[platform.machine()])
    program = _Program(len(code) // 8, code)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "system calls can't be filtered")


def _filter(machine: int, forbidden: tuple[int, ...]) -> bytes:
    """Instructions: what to do, how many to skip if so and if not, and a number."""
    to_end = len(forbidden) + 2  # from the second test to the refusal
    tests = [(_EQUAL, len(forbidden) - at, 0, number) for at, number in enumerate(forbidden)]
    instructions = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 0, to_end + 1, machine),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, to_end - 1, 0, _OTHER_FORM),
        *tests,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)
