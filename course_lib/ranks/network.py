"""Real slow links between ranks: each rank in a network namespace of its own, without root's rights.

One process, the holder, makes a user namespace (unless it is root), a network namespace with a bridge, and
one network namespace for each rank, joined to the bridge by a pair of virtual Ethernet devices.  A token
bucket on both ends limits the rate in both directions.  Ranks enter before they do anything else.  Nothing
has to be cleaned up: the namespaces, and all that is in them, go when the last process in them ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from pathlib import Path
from typing import NoReturn

from course_lib import namespaces
from course_lib.links import BURST, RankLink
from course_lib.ranks.errors import RanksError

DEVICE = "e0"  # the rank's end of its link
MTU = 9000  # jumbo frames: with 1500 bytes, headers would take 4% of the link
QUEUE = 16 << 20  # bytes that may wait at a link's end before packets are lost
# How TCP finds its rate: each kernel has this way, and it slows down only after a loss, of which there is
# none.  The machine's own may be BBR.  It takes the pauses between messages for a slow link, and the same
# all-reduce then takes up to a third longer at one time than at another.
CONGESTION_CONTROL = "reno"
SECONDS_TO_MAKE = 30


def write(path: Path, links: list[RankLink]) -> None:
    """Ask for links: the file from which ``hold`` reads what to make."""
    path.write_text(json.dumps([[link.rate, link.latency] for link in links]))


def hold(asked: Path, made: Path) -> NoReturn:
    """The holder's whole life: make the network, say where it is, and keep it until it is killed."""
    try:
        links = [RankLink(*values) for values in json.loads(asked.read_text())]
        has_user_namespace = _leave()
        answer = {"holder": os.getpid(), "user": has_user_namespace, "namespaces": _make(links)}
    except subprocess.CalledProcessError as error:
        answer = {"error": f"{' '.join(error.cmd[:1])}: {error.stderr.strip()}"}
    except OSError as error:
        failure = namespaces.Failure("network namespace", error.errno or 0, error.strerror or str(error))
        answer = {"error": namespaces.explain(failure)}
    unfinished = made.with_name(f"{made.name}.unfinished")
    unfinished.write_text(json.dumps(answer))
    os.replace(unfinished, made)
    while True:
        time.sleep(3600)


def enter(made: Path, rank: int) -> None:
    """Move this process, which must have a single thread, to the rank's end of its link."""
    answer = _wait_for(made)
    if "error" in answer:
        raise RanksError(f"The links between the ranks could not be made: {answer['error']}")
    process = f"/proc/{answer['holder']}"
    if answer["user"]:
        _enter(f"{process}/ns/user", namespaces.CLONE_NEWUSER)
    _enter(f"{process}/fd/{answer['namespaces'][rank]}", namespaces.CLONE_NEWNET)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = DEVICE
    # NCCL would pass the links by: memory shared between processes, GPU to GPU, InfiniBand.  (Not yet run.)
    os.environ.update(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_IB_DISABLE="1")


def _wait_for(made: Path) -> dict:
    until = time.monotonic() + SECONDS_TO_MAKE
    while not made.exists():
        if time.monotonic() > until:
            raise RanksError(f"The links between the ranks were not there after {SECONDS_TO_MAKE} s.")
        time.sleep(0.002)
    return json.loads(made.read_text())


def _leave() -> bool:
    """Get the right to make networks: by a user namespace, unless this process has it already.

    In a user namespace root would lose its right to read other users' files.
    """
    try:
        namespaces.unshare(namespaces.CLONE_NEWNET)
        return False
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        namespaces.unshare(namespaces.CLONE_NEWUSER)
        namespaces.map_to_root(user, group)
        return True


def _make(links: list[RankLink]) -> list[int]:
    """The network; returns the file descriptors that hold the ranks' namespaces, in rank order."""
    hub, *ends = [_new_network() for _ in range(len(links) + 1)]
    _set_network(hub)
    _ip("link add hub type bridge", f"link set hub mtu {MTU} up", *_pairs(ends)).finish()
    limits = [_tc(f"v{rank}", link) for rank, link in enumerate(links)]
    for rank, (end, link) in enumerate(zip(ends, links, strict=True)):
        _set_network(end)  # commands started now run in this namespace
        address = f"10.0.0.{rank + 1}"
        _ip("link set lo up", f"address add {address}/24 dev {DEVICE}", f"link set {DEVICE} up",
            f"route change 10.0.0.0/24 dev {DEVICE} proto kernel scope link src {address} "
            f"congctl {CONGESTION_CONTROL}").finish()  # fmt: skip
        limits.append(_tc(DEVICE, link))
    _set_network(hub)
    for limit in limits:
        limit.finish()
    return ends


def _pairs(ends: list[int]) -> list[str]:
    """Lines for ``ip``: a pair of devices for each rank, one end on the bridge, one in its namespace."""
    lines = []
    for rank, end in enumerate(ends):
        place = f"/proc/{os.getpid()}/fd/{end}"
        lines.append(f"link add v{rank} mtu {MTU} type veth peer name {DEVICE} mtu {MTU} netns {place}")
        lines.append(f"link set v{rank} master hub up")
    return lines


class _Command:
    """A running program of iproute2, with lines of commands on its standard input."""

    def __init__(self, name: str, lines: tuple[str, ...]):
        path = namespaces.find_program(name)
        self._process = subprocess.Popen(
            [path, "-batch", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self._process.stdin  # a pipe
        self._process.stdin.write("\n".join(lines) + "\n")
        self._process.stdin.close()
        self._name = name

    def finish(self) -> None:
        """Wait until it is done; raises CalledProcessError with what it said if it failed."""
        status = self._process.wait(namespaces.LIMIT)
        assert self._process.stdout and self._process.stderr  # pipes
        message = self._process.stderr.read()
        self._process.stdout.close()
        self._process.stderr.close()
        if status:
            raise subprocess.CalledProcessError(status, [self._name], stderr=message)


def _ip(*lines: str) -> _Command:
    return _Command("ip", lines)


def _tc(device: str, link: RankLink) -> _Command:
    bucket = f"tbf rate {link.rate * 8:.0f}bit burst {BURST} limit {QUEUE}"
    if not link.latency or device != DEVICE:
        return _Command("tc", (f"qdisc add dev {device} root {bucket}",))
    delay = f"netem delay {link.latency * 1e6:.0f}us limit 100000"
    return _Command("tc", (f"qdisc add dev {device} root handle 1: {bucket}",
                           f"qdisc add dev {device} parent 1: {delay}"))  # fmt: skip


def _new_network() -> int:
    """A new network namespace, held by the file descriptor that is returned."""
    namespaces.unshare(namespaces.CLONE_NEWNET)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _enter(path: str, kind: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _set_namespace(descriptor, kind)
    finally:
        os.close(descriptor)


def _set_network(descriptor: int) -> None:
    _set_namespace(descriptor, namespaces.CLONE_NEWNET)


def _set_namespace(descriptor: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came only with Python 3.12
    if libc.setns(descriptor, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} (setns)")
