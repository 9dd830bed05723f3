"""Whether ranks may have network namespaces of their own, joined by rate-limited links, without root.

A child process tries what real slow links need: a user namespace, network namespaces inside it, a veth pair
and a token bucket (tbf) on it. Where the kernel or a container refuses, `refusal` says which rule it was.

    python -m course_lib.namespaces           the child: tries, and prints the step that failed as JSON
    python -m course_lib.namespaces netem     the same with a latency added
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# From <linux/sched.h>; os.unshare came only with Python 3.12.
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
LIMIT = 20  # seconds
SYSTEM_FOLDERS = "/usr/sbin:/sbin"  # where iproute2 is; not on every user's PATH


@dataclass(frozen=True)
class Failure:
    """The step that was refused, the error number (0 if a program failed), and what the system said."""

    step: str
    errno: int
    message: str


def refusal() -> str | None:
    """None where real slow links are possible; otherwise one sentence on the cause and one on the remedy."""
    if not sys.platform.startswith("linux"):
        return f"Network namespaces are a part of Linux; this is {sys.platform}."
    failure = attempt()
    return explain(failure) if failure else None


def has_netem() -> bool:
    """Whether links in namespaces can also have a latency."""
    return attempt("netem") is None


def attempt(*extra: str) -> Failure | None:
    """Try everything in a child process, so that this process stays where it is."""
    command = [sys.executable, "-m", "course_lib.namespaces", *extra]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return Failure("links", 0, f"no answer within {LIMIT} s")
    if child.returncode == 0:
        return None
    try:
        return Failure(**json.loads(child.stdout))
    except (ValueError, TypeError):
        return Failure("start", 0, (child.stderr or child.stdout).strip() or f"status {child.returncode}")


def read_system_file(path: str) -> str:
    """The text of a file under /proc, stripped; empty where there is none, or it may not be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def explain(failure: Failure, read: Callable[[str], str] = read_system_file) -> str:
    """The rule behind a failure, and its remedy. `read` gives the text of a file under /proc, or ""."""
    refused = failure.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS) or "not permitted" in failure.message
    exhausted = failure.errno in (errno.ENOSPC, errno.EUSERS)
    setting = next((rule for rule in SETTINGS if refused and read(rule.path) == rule.refuses), None)
    if setting:
        return setting.sentence()
    if exhausted:
        kind = "net" if failure.step == "network namespace" else "user"
        return Setting(f"user.max_{kind}_namespaces", "0", "15000").sentence(read)
    if refused and re.search(r"^Seccomp:\s*2", read("/proc/self/status"), re.MULTILINE):
        return SECCOMP
    if failure.step == "links":
        return explain_links(failure)
    return f"The {failure.step} was refused ({failure.message})."


@dataclass(frozen=True)
class Setting:
    """A kernel setting that refuses namespaces while it has one value, and a value that allows them."""

    name: str
    refuses: str
    allows: str
    whose: str = "The kernel setting"

    @property
    def path(self) -> str:
        return "/proc/sys/" + self.name.replace(".", "/")

    def sentence(self, read: Callable[[str], str] | None = None) -> str:
        value = read(self.path) if read else self.refuses
        return (
            f"{self.whose} {self.name}={value} forbids them. "
            f"Allow it until the next start of the machine: sudo sysctl {self.name}={self.allows}"
        )


SETTINGS = (
    # Ubuntu from 24.04 on: the namespace is made, but without the rights that make it useful.
    Setting("kernel.apparmor_restrict_unprivileged_userns", "1", "0", "AppArmor's rule"),
    # Older Debian, and hardened kernels.
    Setting("kernel.unprivileged_userns_clone", "0", "1"),
)

SECCOMP = (
    "A seccomp filter forbids them, as containers and hubs use one. "
    "In a container of your own: docker run --security-opt seccomp=unconfined ..."
)


def explain_links(failure: Failure) -> str:
    remedies = {
        "iproute2 is not installed": "On Debian and Ubuntu: sudo apt install iproute2",
        "Unknown device type": "The kernel lacks veth. Load it: sudo modprobe veth",
        "qdisc kind is unknown": "The kernel lacks the token bucket. Load it: sudo modprobe sch_tbf",
    }
    remedy = next((text for symptom, text in remedies.items() if symptom in failure.message), "")
    return f"The links were refused ({failure.message}). {remedy}".strip()


def main() -> int:
    """The child. It is a fresh process: the kernel gives a user namespace to single-threaded callers only."""
    failure = try_all(with_latency="netem" in sys.argv[1:])
    if failure:
        print(json.dumps(asdict(failure)))
    return 1 if failure else 0


def try_all(with_latency: bool) -> Failure | None:
    user, group = os.getuid(), os.getgid()  # before the namespace, where they are still the real ones
    steps = (
        ("user namespace", lambda: unshare(CLONE_NEWUSER)),
        ("user mapping", lambda: map_to_root(user, group)),
        ("network namespace", lambda: unshare(CLONE_NEWNET)),
        ("links", make_links),
        *([("latency", add_latency)] if with_latency else []),
    )
    for name, step in steps:
        try:
            step()
        except OSError as error:
            return Failure(name, error.errno or 0, error.strerror or str(error))
        except subprocess.CalledProcessError as error:
            return Failure(name, 0, error.stderr.strip())
    return None


def unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def map_to_root(user: int, group: int) -> None:
    """Be root inside the user namespace, and the same user as before seen from outside."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def make_links() -> None:
    program("ip", "link", "add", "course0", "type", "veth", "peer", "name", "course1")
    limits = "rate", "400mbit", "burst", "128kb", "latency", "50ms"
    program("tc", "qdisc", "add", "dev", "course0", "root", "tbf", *limits)


def add_latency() -> None:
    program("tc", "qdisc", "add", "dev", "course1", "root", "netem", "delay", "1ms")


def program(name: str, *arguments: str) -> None:
    command = [find_program(name), *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT / 2)


def find_program(name: str) -> str:
    """The path of a program of iproute2; OSError where it is not installed."""
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), SYSTEM_FOLDERS]))
    if path is None:
        raise OSError(errno.ENOENT, f"iproute2 is not installed: no {name}")
    return path


if __name__ == "__main__":
    sys.exit(main())
