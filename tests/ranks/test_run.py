"""ranks.run where all goes well: values, settings, limits of its arguments."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
import torch.distributed as dist

from course_lib import ranks
from course_lib.machine import usable_cores
from course_lib.ranks import fork_server, fresh_processes, launch, logbook, payload, report
from course_lib.ranks.watching import Limits


def run(function, count, *args, **kwargs):
    return ranks.run(function, count, *args, device="cpu", **kwargs)


def sum_of_ranks(size, dtype):
    tensor = torch.full((size,), dist.get_rank() + 1, dtype=dtype)
    dist.all_reduce(tensor)
    return dist.get_rank(), tensor


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
def test_results_come_in_rank_order_and_all_ranks_meet(count):
    for rank, (own, tensor) in enumerate(run(sum_of_ranks, count, 7, dtype=torch.int64)):
        assert own == rank
        assert tensor.tolist() == [count * (count + 1) // 2] * 7


def around():
    """Every rank sends to its right neighbor; all kinds of operations that logbooks note."""
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.zeros(3)
    operations = [
        dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % world),
        dist.P2POp(dist.irecv, received, (rank - 1) % world),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    gathered = [torch.zeros(3) for _ in range(world)]
    dist.all_gather(gathered, received)
    objects = [None] * world
    dist.all_gather_object(objects, "x" * (rank + 1))
    return [int(tensor[0]) for tensor in gathered], [len(text) for text in objects]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_messages_and_collectives(count):
    expected = [(rank - 1) % count for rank in range(count)], list(range(1, count + 1))
    assert run(around, count) == [expected] * count


def every_collective():
    rank, world = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((world,), float(rank))
    dist.broadcast(tensor, 1)
    dist.reduce(tensor, 0)
    dist.all_gather_into_tensor(torch.zeros(world * world), tensor)
    dist.gather(tensor, [torch.zeros(world) for _ in range(world)] if rank == 0 else None, 0)
    dist.scatter(tensor, [torch.zeros(world) for _ in range(world)] if rank == 1 else None, 1)
    dist.reduce_scatter_tensor(torch.zeros(1), tensor)
    dist.all_to_all_single(torch.zeros(world), tensor)
    dist.barrier()
    dist.monitored_barrier()
    dist.all_reduce(tensor, async_op=True).wait()
    objects = [rank]
    dist.broadcast_object_list(objects, 1)
    odd = dist.new_group([r for r in range(world) if r % 2])
    if rank % 2:
        dist.all_reduce(tensor, group=odd)
    return objects


def test_no_false_alarm_from_any_collective():
    assert run(every_collective, 4) == [[1]] * 4


def receive_from_any():
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
        dist.barrier()
        dist.send(torch.ones(2, dtype=torch.float64), 0)
        return None
    sources = sorted(dist.recv(torch.zeros(1)) for _ in range(world - 1))
    dist.barrier()
    for source in sources:
        dist.recv(torch.zeros(2, dtype=torch.float64), source)
    return sources


def test_receiving_from_any_rank_raises_no_false_alarm():
    assert run(receive_from_any, 4)[0] == [1, 2, 3]


def many_messages(count):
    """More than a logbook holds."""
    tensor = torch.zeros(1)
    for _ in range(count):
        if dist.get_rank() == 0:
            dist.send(tensor, 1)
            dist.recv(tensor, 1)
        else:
            dist.recv(tensor, 0)
            dist.send(tensor + 1, 0)
    return tensor.item()


def test_more_operations_than_a_logbook_holds():
    count = 2 * logbook.RECORDS
    assert run(many_messages, 2, count)[0] == count


def draw():
    return torch.rand(1).item(), float(numpy.random.rand()), random.random()


def test_random_numbers_repeat_and_differ_by_rank():
    first, second = run(draw, 3), run(draw, 3)
    assert first == second
    assert all(len(set(numbers)) == 3 for numbers in zip(*first, strict=True))


def surroundings():
    return {
        "threads": torch.get_num_threads(),
        "cpu": ranks.device().type,
        "torchrun": [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")],
        "preloaded": "torch" in sys.modules and threading.active_count() == 1,
    }


def test_surroundings_of_a_rank():
    for rank, seen in enumerate(run(surroundings, 4)):
        assert seen["threads"] == max(1, usable_cores() // 4)
        assert seen["cpu"] == "cpu" and seen["torchrun"] == [str(rank), "4", str(rank)]


def test_torch_was_there_before_the_rank_started():
    """Else every call costs seconds, in silence."""
    run(int, 1)
    maps = open(f"/proc/{launch._starter._process.pid}/maps").read()
    assert "libtorch_cpu" in maps
    assert len(os.listdir(f"/proc/{launch._starter._process.pid}/task")) == 1


def has_imported(module):
    return module in sys.modules


def test_what_an_optimizer_step_imports_is_there_after_a_while():
    """torch imports its compiler at the first step: 3 s in each call, if the server had it not."""
    until = time.monotonic() + 100
    while not run(has_imported, 1, "torch._dynamo")[0]:
        assert time.monotonic() < until
        time.sleep(1.5 * fork_server._SECONDS_UNTIL_IDLE)
    test_torch_was_there_before_the_rank_started()


def test_importing_the_launcher_does_not_import_torch():
    code = (
        "import sys, course_lib.ranks as ranks; ranks.run(int, 2, device='cpu'); "
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def write_at_exit_and_leave_open(folder):
    atexit.register((folder / "at exit").write_text, "handled")
    global kept
    kept = open(folder / "open", "w")  # noqa: SIM115 - never closed, on purpose
    kept.write("written")


def test_exit_handlers_run_and_open_files_are_written(tmp_path):
    run(write_at_exit_and_leave_open, 1, tmp_path)
    assert (tmp_path / "at exit").read_text() == "handled"
    assert (tmp_path / "open").read_text() == "written"


def big(mebibytes):
    return torch.full((mebibytes << 20,), 7, dtype=torch.uint8)


@pytest.mark.parametrize("mebibytes", [64, pytest.param(1024, marks=pytest.mark.long)])
def test_a_large_result(mebibytes):
    (result,) = run(big, 1, mebibytes)
    assert result.numel() == mebibytes << 20 and result[-1] == 7


def print_megabytes(count):
    line = "x" * 999
    for _ in range(count * 1000):
        print(line)


def test_a_hundred_megabytes_of_text(capsys):
    run(print_megabytes, 1, 100)
    assert len(capsys.readouterr().out) == 100 * 1000 * (1000 + len("[rank 0] "))
    assert len(ranks.output(0)) == 100_000_000


def test_text_that_is_not_utf_8_and_half_lines(capsys):
    run(lambda: os.write(1, b"\xff\xfe caf\xc3\xa9\rover\nhalf"), 1)
    assert capsys.readouterr().out == "[rank 0] over\n[rank 0] half\n"


def test_arguments_are_copies():
    numbers = [1]
    run(numbers.append, 2, 2)
    assert numbers == [1]


def gradient_result():
    weight = torch.ones(2, requires_grad=True)
    return weight * 2


def test_a_result_with_a_graph():
    (result,) = run(gradient_result, 1)
    assert result.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (0, "at least 1"),
        (-1, "at least 1"),
        (64, "at most"),
        (2.0, "whole number"),
        ("2", "whole number"),
        (True, "whole number"),
    ],
)
def test_numbers_of_ranks_that_make_no_sense(count, says):
    if count == 64 and usable_cores() >= 16:
        pytest.skip("64 ranks are allowed on this many cores")
    with pytest.raises(ValueError, match=says):
        run(int, count)


@pytest.mark.parametrize("timeout", [0, -1, "5", None, float("nan")])
def test_time_limits_that_make_no_sense(timeout):
    with pytest.raises(ValueError, match="seconds above 0"):
        run(int, 1, timeout=timeout)


def test_other_arguments_that_make_no_sense():
    with pytest.raises(ValueError, match="device='tpu'"):
        ranks.run(int, 1, device="tpu")
    with pytest.raises(ValueError, match="hand over the function itself"):
        run(None, 1)
    with pytest.raises(RuntimeError, match="not a rank"):
        ranks.device()


def test_an_argument_that_does_not_fit_the_function():
    with pytest.raises(ranks.RankFailed, match="TypeError"):
        run(sum_of_ranks, 2)


def test_from_several_threads_at_once():
    results = {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: run(dist.get_world_size, n)})) for n in (2, 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {2: [2, 2], 3: [3, 3, 3]}


SCRIPT = """
from course_lib import ranks
import torch.distributed as dist
print("once")
def rank(): return dist.get_rank()
print(ranks.run(rank, 2, device="cpu"))
"""


@pytest.mark.long
def test_a_script_needs_no_main_guard(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("once\n[0, 1]\n", "")


def test_the_server_is_replaced_after_it_was_killed():
    run(int, 1)
    launch._starter._process.kill()
    launch._starter._process.wait()
    folder = launch._starter.folder
    assert run(dist.get_rank, 2) == [0, 1]
    assert not folder.exists()


@pytest.fixture
def fresh(monkeypatch):
    """Ranks as on macOS and Windows."""
    starter = fresh_processes.FreshProcesses()
    monkeypatch.setattr(launch, "_starter", starter)
    yield
    starter.close()
    assert not starter.folder.exists()


@pytest.mark.long
def test_fresh_processes(fresh, capsys):
    assert run(around, 2) == [([1, 0], [1, 2])] * 2
    assert capsys.readouterr().err == ""


@pytest.mark.long  # each rank imports torch; who watches them is the same as for forked ranks
def test_faults_in_fresh_processes(fresh, capsys):
    with pytest.raises(ranks.RankFailed, match="Rank 1 ended itself with exit code 3"):
        run(lambda: os._exit(3) if dist.get_rank() else dist.barrier(), 2)
    with pytest.raises(ranks.RanksHung, match="wait to receive from each other"):
        run(lambda: dist.recv(torch.zeros(1), 1 - dist.get_rank()), 2, timeout=2)
    assert capsys.readouterr().err == ""


def call(function, **limits):
    return launch.call(function, 2, (), {}, "cpu", Limits(**{"without_progress": 20, **limits}))


def communicate_for_ever():
    while True:
        with contextlib.suppress(BaseException):
            while True:
                dist.barrier()


def print_for_ever():
    while True:
        print("x" * 1000)


def log_for_ever():
    while True:
        ranks.log("x" * 1000)


def test_output_is_shown_and_logbooks_are_closed_where_ranks_can_not_be_ended(monkeypatch, capsys):
    def end(self, folder):
        end_them(self, folder)
        raise ranks.RanksError("no answer")

    books, end_them, close = [], fork_server.ForkServer.end, logbook.Logbook.close
    monkeypatch.setattr(fork_server.ForkServer, "end", end)
    monkeypatch.setattr(logbook.Logbook, "close", lambda self: books.append(close(self)))
    with pytest.raises(ranks.RanksError, match="no answer"):
        call(functools.partial(print, "printed"))
    assert capsys.readouterr().out == "[rank 0] printed\n[rank 1] printed\n"
    assert len(books) == 2


def test_a_run_can_be_limited_in_all():
    with pytest.raises(ranks.RanksHung, match="The ranks did not end within 1 s, so the run was ended"):
        call(communicate_for_ever, total=1)


@pytest.mark.parametrize("function", [print_for_ever, log_for_ever])
def test_a_run_can_be_limited_in_what_it_prints(function):
    with pytest.raises(ranks.RanksError, match="printed more than 5 MiB"):
        call(function, printed=5 << 20)


def test_lines_that_faulthandler_could_not_read_are_passed_over():
    text = 'Current thread 0x1 (most recent call first):\n  File "???", line ??? in ???\n'
    assert report.parse_stack(text) == ()
    assert [line.number for line in report.parse_stack(text + '  File "a.py", line 7 in f\n')] == [7]


def test_names_that_torch_has_modules_of():
    """cloudpickle takes torch.ops and torch's config modules along with a function that has such names."""
    names = {"__name__": "__main__", "torch": torch, "shape": SimpleNamespace(config=3, ops=4)}
    exec("def total():\n    return shape.config + shape.ops + int(torch.ops.aten.relu(torch.ones(1)))", names)
    assert run(names["total"], 1) == [8]


def test_what_can_not_be_sent_is_named():
    lock = threading.Lock()
    with pytest.raises(ValueError, match="the variable lock"):
        run(lambda: lock, 2)
    with pytest.raises(ValueError, match="argument 2"):
        run(print, 2, 1, lock)


def test_entries_of_the_path_that_are_no_text_are_passed_over(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, Path("somewhere")])
    assert run(int, 1) == [0]


def test_a_deleted_working_folder_is_said(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ranks.RanksError, match="The working folder was deleted"):
        run(int, 1)


def test_a_small_part_of_a_large_tensor_comes_back_alone():
    large = torch.arange(10_000_000)
    (part,) = run(lambda: large[:3], 1)
    assert part.tolist() == [0, 1, 2] and part.untyped_storage().nbytes() == 24


def test_a_tensor_from_a_gpu_keeps_its_class_and_requires_grad(monkeypatch):
    """A tensor on the CPU stands for the one on a GPU."""
    module = torch.nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    module.mean, module.steps = torch.ones(2, requires_grad=True) * 2, torch.tensor([3])
    on_gpu = [module.weight, module.bias, module.mean, module.steps]
    is_on_gpu = lambda obj: any(obj is tensor for tensor in on_gpu)  # noqa: E731
    monkeypatch.setattr(payload, "_is_tensor_on_device", is_on_gpu)
    back = payload.from_bytes(payload.to_bytes(module, "the module"))
    assert dict(back.named_parameters()).keys() == {"weight", "bias"}
    assert torch.equal(back.weight, module.weight) and back(torch.ones(2)).requires_grad
    assert back.weight.requires_grad and not back.bias.requires_grad
    assert back.mean.tolist() == [2, 2] and back.mean.requires_grad and back.mean.is_leaf
    assert back.steps.tolist() == [3] and not back.steps.requires_grad


def train_with_ddp(steps):
    module = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for _ in range(steps):
        module(torch.ones(2, 4)).sum().backward()
        time.sleep(0.05)
    return "trained"


@pytest.mark.long
def test_training_with_ddp_is_progress():
    """DDP communicates from C++, where no logbook sees it."""
    assert run(train_with_ddp, 2, 250, timeout=10) == ["trained", "trained"]
