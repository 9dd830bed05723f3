"""Links at work: what passes, how long it takes beside another, and that nothing is left of them."""

import dataclasses
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from course_lib import all_reduce, ranks
from course_lib.links import BURST, Links, RankLink
from course_lib.ranks import pacing
from tests.ranks.kernels import gone, kernel

KINDS = ["real", "paced"]


def run(function, count, *args, links, **kwargs):
    return ranks.run(function, count, *args, device="cpu", links=links, **kwargs)


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param == "real":
        request.getfixturevalue("real_links")
    return request.param


def add_up(size):
    tensor = torch.arange(size, dtype=torch.float64) * (dist.get_rank() + 1)
    all_reduce.ring(tensor)
    return tensor


@pytest.mark.parametrize("count", [1, 2, 3, 5, pytest.param(8, marks=pytest.mark.long)])
def test_the_ring_is_right_on_links(kind, count):
    expected = torch.arange(1001, dtype=torch.float64) * (count * (count + 1) / 2)
    for result in run(add_up, count, 1001, links=Links("1gbit", kind=kind)):
        assert torch.equal(result, expected)


def refused_and_then_sent(other):
    """Seconds until 2 MiB have come, after a send that torch refuses and a small one elsewhere."""
    rank, large, small = dist.get_rank(), torch.ones(2**19), torch.ones(3)
    group = dist.new_group([0, 1])
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.send(torch.zeros(4, 4).T, 1)
    dist.barrier()  # else what is refused would be compared with what rank 1 receives
    began = time.monotonic()
    if rank == 0:
        first = dist.isend(small, 1, **({"group": group} if other == "group" else {"tag": 1}))
        works = [first, dist.isend(large, 1)]
    else:
        works = [dist.irecv(large, 0)]
        works += [dist.irecv(small, 0, **({"group": group} if other == "group" else {"tag": 1}))]
    works[rank == 0].wait()
    seconds = time.monotonic() - began
    works[rank].wait()
    return seconds


@pytest.mark.parametrize("other", ["group", "tag"])
def test_a_message_is_held_back_for_its_own_bytes(kind, other):
    """Whatever else was refused, or sent on another channel: 2 MiB at 100 Mbit/s."""
    seconds = run(refused_and_then_sent, 2, other, links=Links("100mbit", kind=kind))
    assert seconds[1] > (2 * 2**20 - 2 * BURST) / 12.5e6 - 0.05


def small_messages():
    """Seconds of three small messages on a link that is otherwise idle."""
    began = time.monotonic()
    for _ in range(3):
        if dist.get_rank() == 0:
            dist.send(torch.ones(7500), 1)
        else:
            dist.recv(torch.ones(7500), 0)
    return time.monotonic() - began


def test_an_idle_link_has_saved_up_for_small_messages_however_slow_it_is(kind):
    """90 kB, at 125 kB/s."""
    assert run(small_messages, 2, links=Links("400mbit", {1: "1mbit"}, kind=kind))[1] < 0.5


def test_sixteen_ranks(real_links):
    assert all(torch.equal(result, torch.arange(3, dtype=torch.float64) * 136)
               for result in run(add_up, 16, 3, links=Links("1gbit")))  # fmt: skip


def collectives():
    tensor = torch.ones(1 << 18) * dist.get_rank()  # 1 MiB
    dist.all_reduce(tensor)
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, dist.get_rank())
    module = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    module(torch.ones(2, 3)).sum().backward()
    return float(tensor[0]), gathered


def test_collectives_and_ddp_go_through_real_links(real_links):
    assert run(collectives, 3, links=Links("1gbit")) == [(3.0, [0, 1, 2])] * 3


def connected():
    """How TCP paces this rank's end of a connection from rank 1 to rank 0."""
    if dist.get_rank() == 0:
        server = socket.create_server(("10.0.0.1", 0))
        dist.broadcast_object_list([server.getsockname()], src=0)
        link, _ = server.accept()
    else:
        place = [None]
        dist.broadcast_object_list(place, src=0)
        link = socket.create_connection(place[0], timeout=10)
    return link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def test_tcp_paces_itself_alike_whatever_the_machine_prefers(real_links):
    """By BBR, which some machines prefer, the same all-reduce takes up to a third longer now and then."""
    assert run(connected, 2, links=Links("1gbit")) == ["reno", "reno"]


def small_collectives():
    loss = torch.ones(3) * dist.get_rank()
    dist.all_reduce(loss)
    dist.barrier()
    return float(loss[0])


def test_one_thread_of_a_rank_settles_at_a_time(tmp_path):
    """A file's lock keeps out other processes, and lets all threads of this one in."""
    (tmp_path / "pacing").touch()
    board, inside, asks = pacing._Board(tmp_path / "pacing", [RankLink(1.0, 0.0)]), [], threading.Event()

    def settle():
        asks.set()
        with board._locked():
            inside.append("other")

    other = threading.Thread(target=settle)
    with board._locked():
        other.start()
        asks.wait()
        other.join(0.2)  # without a lock it is in by now
        inside.append("first")
    other.join()
    assert inside == ["first", "other"]


def test_large_collectives_are_refused_rather_than_fast():
    assert run(small_collectives, 3, links=Links(kind="paced")) == [3.0] * 3
    with pytest.raises(ranks.RankFailed, match=r"dist.all_reduce of 1,048,576 bytes can't be slowed down"):
        run(collectives, 2, links=Links(kind="paced"))
    with pytest.raises(ranks.RankFailed, match="A receive from any rank of 4 bytes can't be slowed down"):
        run(lambda: dist.recv(torch.zeros(1)) if dist.get_rank() else dist.send(torch.zeros(1), 1), 2,
            links=Links(kind="paced"))  # fmt: skip


def timed(name, mebibytes, repetitions):
    """Seconds of each repetition on this rank, without the barrier and the filling before it."""
    function = getattr(all_reduce, name)
    tensor, times = torch.empty(int(mebibytes * 2**18)), []
    for _ in range(repetitions):
        tensor.fill_(dist.get_rank())
        dist.barrier()
        began = time.perf_counter()
        function(tensor)
        times.append(time.perf_counter() - began)
    return times


def fastest(name, count, mebibytes, links, repetitions=3):
    """The slowest rank's seconds in the best of some repetitions; the others waited for cores."""
    times = run(timed, count, name, mebibytes, repetitions, links=links)
    return min(map(max, zip(*times, strict=True)))


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", ["ring", "star", "unchunked_ring"])
def test_pacing_takes_as_long_as_real_links(real_links, name, count, record_property):
    links = [Links("400mbit", kind=kind) for kind in KINDS]
    rounds = [[fastest(name, count, 8, one, 3) for one in links] for _ in range(3)]
    real, paced = map(min, zip(*rounds, strict=True))
    record_property("measured", f"{name}, N={count}, 8 MiB, 400 Mbit/s: paced/real = {paced / real:.3f}")
    assert abs(paced / real - 1) <= 0.10


def least_seconds(count, mebibytes, bandwidth):
    """A ring's time on links that are idle before each phase, when a bucketful passes at once."""
    phase = (count - 1) / count * mebibytes * 2**20
    return 2 * max(0, phase - BURST * (count - 1)) / bandwidth


@pytest.mark.parametrize("links", [Links("100mbit"), Links("400mbit", {2: "50mbit"})])
def test_no_transfer_is_faster_than_the_slowest_link(kind, links):
    """On a busy machine it may take longer, but never less."""
    slowest = min(link.rate for link in links.of_ranks(3))
    assert fastest("ring", 3, 3, dataclasses.replace(links, kind=kind)) >= least_seconds(3, 3, slowest)


def swap(mebibytes, send_first):
    """Seconds in which two ranks swap tensors, over and over; which of them comes first varies."""
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    mine, theirs = (torch.ones(int(mebibytes * 2**18)) for _ in range(2))
    times = []
    for repetition in range(6):
        dist.barrier()
        began = time.perf_counter()
        time.sleep(0.01 * (rank == repetition % 2))
        works = [dist.isend(mine, other)] if send_first else [dist.irecv(theirs, other)]
        time.sleep(0.02)
        works += [dist.irecv(theirs, other)] if send_first else [dist.isend(mine, other)]
        for work in works:
            work.wait()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


@pytest.mark.long
def test_two_ranks_that_send_first_take_turns(kind, record_property):
    links = Links("400mbit", kind=kind)
    late, early = (max(run(swap, 2, 8, send_first, links=links)) for send_first in (True, False))
    record_property("measured", f"swap on {kind} links: send first / receive first = {late / early:.2f}")
    assert late > early  # about 2


def test_traffic_of_one_rank(kind):
    def count():
        tensor = torch.ones(10) * dist.get_rank()
        with ranks.traffic() as traffic:
            all_reduce.ring(tensor)
        return dict(traffic.sent), traffic.total_received, traffic.wire_sent

    for rank, (sent, received, wire) in enumerate(run(count, 3, links=Links(kind=kind))):
        assert sum(sent.values()) > 0 and list(sent) == [(rank + 1) % 3] and received > 0
        assert (wire is None) if kind == "paced" else wire > sum(sent.values())


def test_latency_in_software():
    links = Links("1gbit", latency="20ms", kind="paced")
    assert fastest("ring", 2, 0.01, links) >= 2 * 0.02


def test_several_networks_at_once(kind):
    results = {}

    def one(count):
        results[count] = run(add_up, count, 5, links=Links(kind=kind))

    threads = [threading.Thread(target=one, args=(count,)) for count in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert {n: float(found[0][1]) for n, found in results.items()} == {2: 3.0, 3: 6.0, 4: 10.0}


def hang():
    dist.recv(torch.zeros(1), 1 - dist.get_rank())


def fail():
    if dist.get_rank():
        raise KeyError("lost")
    dist.barrier()


def die():
    if dist.get_rank():
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


@pytest.mark.parametrize(("function", "error", "says"), [
    (hang, ranks.RanksHung, "wait to receive from each other"), (fail, ranks.RankFailed, "KeyError"),
    (die, ranks.RankFailed, "Rank 1")])  # fmt: skip
def test_faults_are_reported_as_ever_and_leave_nothing(kind, function, error, says):
    before = _interfaces()
    with pytest.raises(error, match=says):
        run(function, 2, links=Links(kind=kind), timeout=2)
    assert run(add_up, 2, 2, links=Links(kind=kind))[0].tolist() == [0.0, 3.0]
    assert _interfaces() == before


CELL = """
def f():
    import torch
    dist.recv(torch.zeros(1), 1 - dist.get_rank())
ranks.run(f, 2, links=Links(kind="real"))
"""
START = "import torch.distributed as dist\nfrom course_lib import ranks\nfrom course_lib.links import Links"


def _hanging(started):
    """Start ranks that hang on links; the processes there are then: server, holder, two ranks."""
    started.run(START)
    request = started.start(CELL)
    deadline = time.monotonic() + 30
    while len(started.descendants()) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    left = started.descendants()
    assert len(left) == 4
    return request, left


@pytest.mark.parametrize("how", [pytest.param("interrupt", marks=pytest.mark.long), "kill"])
def test_nothing_is_left_when_the_kernel_is_stopped(real_links, how, tmp_path):
    before = _interfaces()
    with kernel(COURSE_DEVICE="cpu", TMPDIR=str(tmp_path)) as started:
        request, left = _hanging(started)
        if how == "interrupt":
            started.manager.interrupt_kernel()
            assert "KeyboardInterrupt" in started.collect(request).error
            left = left[1:]  # the server stays for the next call
        else:
            os.kill(started.manager.provisioner.pid, signal.SIGKILL)
        assert gone(left, 5)
    assert _interfaces() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("course-ranks")] == []


def without_rights(script, folder):
    """Run a script as the user nobody without any capability, with an interpreter that nobody may start."""
    folder.chmod(0o777)
    environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "COURSE_DEVICE": "cpu",
                   "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}  # fmt: skip
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
            "--inh-caps=-all", "--bounding-set=-all"] if os.getuid() == 0 else []  # fmt: skip
    same = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"  # ours may lie in root's home
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    options = {"capture_output": True, "text": True, "cwd": "/", "env": environment, "timeout": 120}
    for python in (sys.executable, same):
        command = [*drop, python, "-c", again]
        if subprocess.run([*command, "import torch, course_lib"], **options).returncode == 0:
            return subprocess.run([*command, script], **options)
    pytest.skip("the user nobody may not read this installation")


@pytest.mark.long
def test_links_need_no_rights(real_links, tmp_path):
    script = "from course_lib import ranks\nfrom course_lib.links import Links\n"
    script += "import torch.distributed as dist\nprint(ranks.run(dist.get_rank, 3, links=Links(kind='real')))"
    done = without_rights(script, tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("[0, 1, 2]", "")


def _interfaces():
    return Path("/proc/self/net/dev").read_text().count(":") if Path("/proc/self/net/dev").exists() else 0
