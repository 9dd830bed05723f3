"""The path for GPUs, by the rules of CUDA streams: what touches the same memory must be ordered by events.

There is no GPU here.  Streams and events are stand-ins that write down what would be launched where; the
operations themselves are those of real steps, seen by a dispatch mode.
"""

import contextlib
import itertools

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib import overlap, ranks
from course_lib.overlap import bucketed, channel
from course_lib.streams import Launch, Record, Wait, races


class FakeStreams(TorchDispatchMode):
    """Notes each operation on the stream that is current, and stands in for torch.cuda."""

    def __init__(self):
        super().__init__()
        self.program, self._current, self._events = [], ["main"], itertools.count()
        self._storages = {}  # kept alive, so that no two of them get the same name

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        is_view = any(each.alias_info is not None and not each.alias_info.is_write
                      for each in function._schema.returns)  # fmt: skip
        if not is_view:
            reads, writes = self._touched(function, args, kwargs or {}, result)
            self.program.append(Launch(str(function), self._current[-1], tuple(reads), tuple(writes)))
        return result

    def _touched(self, function, args, kwargs, result):
        reads, writes = [], self._names(result)
        for argument, schema in zip([*args, *kwargs.values()], function._schema.arguments, strict=False):
            is_written = schema.alias_info is not None and schema.alias_info.is_write
            (writes if is_written else reads).extend(self._names(argument))
        return reads, writes

    def _names(self, value):
        tensors = value if isinstance(value, list | tuple) else [value]
        storages = [each.untyped_storage() for each in tensors if isinstance(each, torch.Tensor)]
        for each in storages:
            self._storages[each._cdata] = each
        return [f"memory {each._cdata}" for each in storages]

    # --- as torch.cuda ---

    def Stream(self, device):
        return FakeStream(self, "communication")

    def current_stream(self, device=None):
        return FakeStream(self, self._current[-1])

    @contextlib.contextmanager
    def stream(self, stream):
        self._current.append(stream.name)
        try:
            yield
        finally:
            self._current.pop()


class FakeStream:
    device = None

    def __init__(self, streams, name):
        self.streams, self.name = streams, name

    def record_event(self):
        event = f"event {next(self.streams._events)}"
        self.streams.program.append(Record(self.name, event))
        return event

    def wait_event(self, event):
        self.streams.program.append(Wait(self.name, event))

    def wait_stream(self, other):
        self.wait_event(other.record_event())


def steps_on_streams(forget=""):
    """Three steps, one of them in two backward passes; what would race, and what memory is not kept."""
    streams = FakeStreams()
    # In a rank of its own, so nothing has to be put back.
    channel.torch.cuda.Stream, channel.torch.cuda.stream = streams.Stream, streams.stream
    channel.torch.cuda.current_stream = streams.current_stream
    kept = set()
    torch.Tensor.record_stream = lambda row, stream: kept.update(
        (name, stream.name) for name in streams._names(row)
    )
    channel.beside = lambda device, all_reduce: channel.Stream(device)
    if forget == "follow":
        channel.Stream.follow = lambda self: None
    if forget == "wait":
        channel._OnStream.wait = lambda self: None
    if forget == "reopen":
        bucketed.Place.before_gradient = lambda self, gradient: None
    module = nn.Sequential(*(nn.Linear(3, 3) for _ in range(3)))
    model = overlap.BucketedDataParallel(module, 1e-6, 1e-6, all_reduce=lambda row: row.add_(0))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with streams:
        for step, passes in enumerate((1, 2, 1)):
            for _ in range(passes):
                model(torch.ones(2, 3)).sum().backward()
            model.finish()
            optimizer.step()
            optimizer.zero_grad(set_to_none=step == 0)
    used = {command.stream for command in streams.program}
    beside = {
        (memory, launch.stream) for launch in streams.program
        if isinstance(launch, Launch) and launch.stream != "main"
        for memory in launch.reads + launch.writes
    }  # fmt: skip
    found = [(race.first.name, race.second.name) for race in races(streams.program)]
    return sorted(used), found, beside - kept


def test_nothing_races():
    [(streams, found, not_kept)] = ranks.run(steps_on_streams, 1, device="cpu")
    assert streams == ["communication", "main"]
    assert found == []
    assert not_kept == set()


@pytest.mark.parametrize("forgotten", [
    "wait",
    pytest.param("follow", marks=pytest.mark.long),
    pytest.param("reopen", marks=pytest.mark.long),  # else a second backward pass adds to what is summed
])  # fmt: skip
def test_each_wait_is_needed(forgotten):
    [(_, found, _)] = ranks.run(steps_on_streams, 1, forgotten, device="cpu")
    assert found


def groups_of_the_ring():
    """Whether there is a group of its own for a row on the CPU, and on a GPU."""
    return [hasattr(channel.apart(None, torch.device(kind)), "keywords") for kind in ("cpu", "cuda")]


def test_on_gpus_no_second_group_is_under_way():
    """The default group of ranks has a backend for each kind of device, so its name tells nothing."""
    assert ranks.run(groups_of_the_ring, 2, device="cpu") == [[True, False]] * 2
