"""Every way to fail that ranks.run must survive: what the ranks do, and what the report must say.

The tests run each once; the storm draws from them again and again.
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from course_lib import ranks


@dataclass(frozen=True)
class Scenario:
    function: Callable
    says: tuple[str, ...]  # all of these must stand in the report
    error: type[Exception] | None = ranks.RankFailed
    ranks: int = 4
    timeout: float = 20
    printed: str = ""  # must stand in what was shown
    result: Callable[[list], bool] = field(default=lambda results: True)
    repeatable: bool = True  # whether the report is the same on every run

    @property
    def name(self) -> str:
        return self.function.__name__


SCENARIOS: list[Scenario] = []


def scenario(*says: str, **settings):
    def register(function):
        SCENARIOS.append(Scenario(function, says, **settings))
        return function

    return register


def me() -> int:
    return dist.get_rank()


def meet() -> None:
    dist.all_reduce(torch.ones(4))


class OwnError(Exception):
    def __init__(self, first, second):  # can't be rebuilt from its args alone
        super().__init__(f"{first} and {second}")


@scenario("Rank 2 raised ValueError: two is odd here", "raise ValueError", "0, 1, 3  waits in all_reduce",
          printed="[rank 2] before")  # fmt: skip
def raise_on_one():
    print("before")
    if me() == 2:
        raise ValueError("two is odd here")
    meet()


@scenario("Ranks 0, 1, 2 and 3 raised ZeroDivisionError", "return 1 // 0")
def raise_on_all():
    return 1 // 0


@scenario("Rank 0 raised OwnError: 1 and 2")
def raise_what_can_not_be_rebuilt():
    if me() == 0:
        raise OwnError(1, 2)
    meet()


@scenario("Rank 3 raised RuntimeError: outer", "caused by KeyError: 'inner'")
def raise_from_another():
    if me() == 3:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer") from error
    meet()


@scenario("Rank 1 called sys.exit(7)")
def leave_with_sys_exit():
    if me() == 1:
        sys.exit(7)
    meet()


@scenario("Rank 1 called sys.exit() instead")
def leave_with_sys_exit_and_no_code():
    if me() == 1:
        sys.exit()
    meet()


@scenario("Rank 2 ended itself with exit code 3", printed="[rank 2] last words")
def leave_with_os_exit():
    if me() == 2:
        print("last words")
        os._exit(3)
    meet()


@scenario("Rank 2 ended itself with exit code 0")
def leave_with_os_exit_as_if_all_were_well():
    if me() == 2:
        os._exit(0)
    meet()


@scenario("Rank 1 was killed (SIGKILL)", "after scenarios.py, line", printed="[rank 1] last words")
def be_killed():
    meet()
    if me() == 1:
        sys.stdout.write("last words")
        os.kill(os.getpid(), signal.SIGKILL)
    meet()


@scenario("Rank 1 was ended (SIGTERM)")
def be_terminated():
    if me() == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    meet()


@scenario("Rank 3 crashed (SIGSEGV", "ctypes.string_at(0)")
def crash():
    if me() == 3:
        ctypes.string_at(0)
    meet()


@scenario("Rank 0 raised", "emory")
def exhaust_memory():
    if me() == 0:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), resource.RLIM_INFINITY))
        torch.ones(1 << 30)
    meet()


@scenario("Ranks 0 and 1 wait to receive from each other", "irecv", error=ranks.RanksHung, ranks=2, timeout=1)
def receive_first():
    tensor = torch.zeros(3)
    dist.recv(tensor, 1 - me())
    dist.send(tensor, 1 - me())


@scenario("wait until their message is received", error=ranks.RanksHung, ranks=2, timeout=1.5)
def send_first():
    tensor = torch.zeros(1 << 23)
    dist.send(tensor, 1 - me())
    dist.recv(tensor, 1 - me())


@scenario("Ranks 0, 3, 2 and 1 wait to receive", error=ranks.RanksHung, timeout=1)
def receive_in_a_ring():
    tensor = torch.zeros(3)
    dist.recv(tensor, (me() - 1) % 4)
    dist.send(tensor, (me() + 1) % 4)


@scenario("waits in recv of 5 float32 elements from rank 0 (posted in line", "request.wait()",
          error=ranks.RanksHung, ranks=2, timeout=1)  # fmt: skip
def wait_for_what_never_comes():
    if me() == 1:
        request = dist.irecv(torch.zeros(5), 0)
        request.wait()


@scenario("Rank 2 returned without calling all_reduce", "Every rank must call every collective",
          error=ranks.RanksHung, timeout=1)  # fmt: skip
def skip_a_collective():
    if me() != 2:
        meet()


@scenario("Rank 0 waits for a message with tag 1 from rank 1, which sent one with tag 2",
          error=ranks.RanksHung, ranks=2, timeout=1)  # fmt: skip
def mix_up_tags():
    if me() == 0:
        dist.recv(torch.zeros(2), 1, tag=1)
    else:
        dist.send(torch.zeros(2), 0, tag=2)


@scenario("Rank 1 did not get to what ranks 0, 2 and 3 wait for", "itertools.count()", error=ranks.RanksHung,
          timeout=1)  # fmt: skip
def loop_for_ever():
    if me() == 1:
        all(True for _ in itertools.count())
    meet()


@scenario(
    "No rank waits in a call to torch.distributed",
    "raise timeout=",
    "was running",
    error=ranks.RanksHung,
    ranks=2,
    timeout=1,
)
def all_loop_for_ever():
    while True:
        pass


@scenario("was running", "ctypes.PyDLL(None).sleep(60)", error=ranks.RanksHung, ranks=2, timeout=1)
def hold_the_interpreter():
    ctypes.PyDLL(None).sleep(60)


@scenario("wait for each other in a circle", "rank 0 in all_reduce for rank 1", error=ranks.RanksHung,
          ranks=2, timeout=1)  # fmt: skip
def mix_collective_and_message():
    if me() == 0:
        meet()
    else:
        dist.recv(torch.zeros(1), 0)


@scenario("What rank 0 sends is not what rank 1 expects", "send of 3 float32", "recv of 5 float32", ranks=2)
def receive_more_than_is_sent():
    dist.send(torch.ones(3), 1) if me() == 0 else dist.recv(torch.ones(5), 0)


@scenario("What rank 0 sends is not what rank 1 expects", "send of 5 float32", "recv of 3 float32", ranks=2)
def receive_less_than_is_sent():
    dist.send(torch.ones(5), 1) if me() == 0 else dist.recv(torch.ones(3), 0)


@scenario("What rank 0 sends is not what rank 1 expects", "3 float64", "6 float32", ranks=2)
def receive_another_dtype():
    if me() == 0:
        dist.send(torch.ones(3, dtype=torch.float64), 1)
    else:
        dist.irecv(torch.ones(6), 0).wait()


@scenario(
    "The ranks call all_reduce with tensors or settings that do not fit", "shape (4,)", "shape (5,)", ranks=2
)
def reduce_other_lengths():
    dist.all_reduce(torch.ones(4 + me()))


@scenario("The ranks call all_reduce with tensors or settings that do not fit", "(2, 3)", "(3, 2)", ranks=2)
def reduce_other_shapes():
    dist.all_reduce(torch.ones(2 + me(), 3 - me()))


@scenario("The ranks call all_reduce with tensors or settings that do not fit", "float32", "float64", ranks=2)
def reduce_other_dtypes():
    dist.all_reduce(torch.ones(2, dtype=torch.float64 if me() else torch.float32))


@scenario("The ranks call all_reduce with tensors or settings that do not fit", "SUM", "MAX", ranks=2)
def reduce_with_other_operations():
    dist.all_reduce(torch.ones(2), op=dist.ReduceOp.MAX if me() else dist.ReduceOp.SUM)


@scenario("The ranks call collectives in a different order", "all_reduce", "broadcast", ranks=2)
def call_collectives_in_another_order():
    first, second = (meet, lambda: dist.broadcast(torch.ones(4), 0))[:: 1 - 2 * me()]
    first()
    second()


@scenario("The ranks call broadcast with tensors or settings that do not fit", "root 0", "root 1", ranks=2)
def broadcast_from_two():
    dist.broadcast(torch.ones(2), me())


@scenario("Rank 0 raised ValueError: rank 0 can't recv a message from itself", ranks=1)
def receive_from_oneself():
    dist.irecv(torch.zeros(3), 0).wait()


@scenario("the result of type lock can't be sent")
def return_what_can_not_be_sent():
    return threading.Lock() if me() == 1 else 0


@scenario(error=None, ranks=2, printed="[rank 1] started",
          result=lambda results: results == [0, 1])  # fmt: skip
def leave_a_thread_and_processes_behind():
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    subprocess.Popen(["setsid", "sleep", "600"])
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
    print("started")
    return me()


@scenario("Ranks 0, 1, 2 and 3 raised RanksError: ranks.run was called inside a rank")
def start_ranks_in_a_rank():
    ranks.run(me, 2)


@scenario("Rank 0 ended itself with exit code 4", "1, 2, 3  waits in all_reduce", "is a consequence")
def leave_the_others_in_a_collective():
    if me() == 0:
        time.sleep(0.2)
        os._exit(4)
    meet()


@scenario("raised KeyboardInterrupt", ranks=2)
def raise_an_interrupt():
    raise KeyboardInterrupt


@scenario("Rank 0 raised RecursionError", "times)", ranks=2)
def recurse_for_ever():
    def down():
        return down()

    if me() == 0:
        down()
    meet()


@scenario(error=None, ranks=2, printed="[rank 0] line 99", result=lambda results: results == [None, None])
def print_a_lot():
    for number in range(100):
        print("line", number)
    print(end="no newline")


# --- What must not be taken for a fault, and diagnoses that must not accuse the wrong one ---


@scenario(error=None, ranks=2)
def call_what_torch_refuses_and_go_on():
    if me() == 0:
        try:
            dist.all_gather([torch.zeros(2), torch.zeros(3)], torch.ones(3))
        except (ValueError, RuntimeError):
            pass
    dist.all_gather([torch.zeros(2), torch.zeros(2)], torch.ones(2))
    dist.broadcast(torch.ones(2), 0)
    dist.barrier()


@scenario("The ranks call scatter with tensors or settings that do not fit", ranks=2)
def scatter_into_a_longer_tensor():
    dist.scatter(torch.zeros(3 + me()), [torch.ones(3), torch.ones(3)] if me() == 0 else None, 0)


@scenario("The ranks call gather with tensors or settings that do not fit", ranks=2)
def gather_a_shorter_tensor():
    dist.gather(torch.ones(3 - me()), [torch.zeros(3), torch.zeros(3)] if me() == 0 else None, 0)


@scenario("The ranks call all_gather with tensors or settings that do not fit", ranks=2)
def all_gather_other_lengths():
    length = 3 + me()
    dist.all_gather([torch.zeros(length), torch.zeros(length)], torch.ones(length))


@scenario("Rank 1 did not get to what rank 0 waits for", error=ranks.RanksHung, ranks=2, timeout=1)
def send_the_later_tag_first_and_loop():
    if me() == 0:
        dist.recv(torch.zeros(1), 1, tag=0)
        dist.recv(torch.zeros(1), 1, tag=1)
    else:
        request = dist.isend(torch.ones(1), 0, tag=1)  # noqa: F841 - right, and waits for its turn
        all(True for _ in itertools.count())
        dist.send(torch.ones(1), 0, tag=0)


@scenario("0  waits in recv of 1 float32 element from rank 1", "1  was running", error=ranks.RanksHung,
          ranks=2, timeout=1)  # fmt: skip
def wait_for_the_first_of_many():
    if me() == 0:
        requests = [dist.irecv(torch.zeros(1), 1) for _ in range(100)]
        requests[0].wait()
    all(True for _ in itertools.count())


@scenario("wait to receive one more message from each other", error=ranks.RanksHung, ranks=2, timeout=1)
def receive_twice_what_is_sent_once():
    request = dist.isend(torch.ones(1), 1 - me())
    dist.recv(torch.zeros(1), 1 - me())
    request.wait()
    dist.recv(torch.zeros(1), 1 - me())


@scenario("Rank 0 raised Frozen: 1")
def raise_a_frozen_exception():
    if me() == 0:
        raise Frozen(1)
    meet()


@dataclass(frozen=True)
class Frozen(Exception):
    value: int

    def __str__(self):
        return str(self.value)


class Silent(RuntimeError):
    def __str__(self):
        raise KeyError("no text")


@scenario("Rank 0 raised Silent: (its text can't be shown)")
def raise_what_has_no_text():
    if me() == 0:
        raise Silent
    meet()


@scenario("Rank 0 raised ExceptionGroup", "with KeyError: 'inner'", "look here")
def raise_a_group_with_a_note():
    if me() == 0:
        group = ExceptionGroup("several", [KeyError("inner")])
        group.add_note("look here")
        raise group
    meet()


@scenario(error=None, ranks=2, result=lambda results: results == [1, 1])
def close_standard_output():
    sys.stdout.close()
    sys.stdout = None
    return 1


@scenario("raised OSError", "File too large", ranks=1)
def return_what_there_is_no_room_for():
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
    return torch.zeros(1000)
