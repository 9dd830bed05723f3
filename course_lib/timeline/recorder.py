"""Records what a rank does: blocks of the learner's, the layers of a module, and reductions beside them.

Runs in the rank, and stands on ``clocks`` (when) and ``layers`` (which layer).
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from course_lib.palette import color_of
from course_lib.timeline.clocks import clock_for
from course_lib.timeline.spans import Span

if TYPE_CHECKING:
    import torch

    from course_lib.timeline.layers import LayerMarks


class Recorder:
    """Records what this rank does: ``with record("compute", "forward"): ...`` adds a Span to ``spans``.

    The clock is that of the machine, so spans of its ranks can be compared; for ranks on several machines,
    ``clock_offset`` is what ``timeline.clock_offset()`` found.  On a GPU, marks are put on the current
    stream, and times are those at which the GPU came to them.  (Not yet run on a GPU.)

    What is recorded computes what it would without, bit for bit.  Each span costs the rank
    some tens of microseconds; ``benchmarks/timeline.py`` measures it.  Raises RuntimeError outside of ranks.
    """

    def __init__(self, clock_offset: float | tuple[float, float] = 0.0) -> None:
        import torch.distributed as dist

        from course_lib import ranks

        if not dist.is_initialized():
            raise RuntimeError("timeline.Recorder() is for functions that ranks.run calls; "
                               "this process is not a rank")  # fmt: skip
        self._rank = dist.get_rank()
        self._clock = clock_for(ranks.device().type)
        self._offset = clock_offset[0] if isinstance(clock_offset, tuple) else clock_offset
        self._marked: list[tuple] = []  # kind, label, start, end, lane, step; times are marks of the clock
        self._layer_marks: list[tuple[LayerMarks, int]] = []
        self._steps, self._buckets = 0, itertools.count()
        self._thread: int | None = None  # that of the step that is open
        self._waits = 0  # blocks of kind "idle" that are open

    @property
    def spans(self) -> list[Span]:
        """What was recorded so far, in order of start.  On a GPU, waits until it has come to all of it."""
        marked = [*self._marked]
        for layers, step in self._layer_marks:
            marked += [("compute", *labeled, "compute", step) for labeled in layers.spans()]
        return sorted(map(self._span, marked), key=lambda span: (span.start, -span.end))

    def _span(self, marked: tuple) -> Span:
        kind, label, start, end, lane, step = marked
        times = [self._clock.seconds(mark) + self._offset for mark in (start, end)]
        # Two streams' marks may come in another order than the host put them there.
        return Span(self._rank, kind, label, times[0], max(times), lane, step)

    @contextmanager
    def __call__(self, kind: str, label: str = "") -> Iterator[None]:
        """Record the block as one span, even if it raises.  Raises ValueError at once for an unknown kind."""
        color_of(kind)
        start = self._begin()
        self._waits += kind == "idle"
        try:
            yield
        finally:
            self._waits -= kind == "idle"
            self._add(kind, label, start, "compute")

    @contextmanager
    def step(
        self, module: torch.nn.Module | None = None, layers: Sequence[str] | None = None
    ) -> Iterator[None]:
        """Open for one training step: records ``module``'s layers, forward and backward, and reductions.

        ``layers``: names of submodules, as ``module.named_modules()`` has them; without, the module's
        children, and the items of those that are lists.  Steps, and the buckets of each, count from 0.
        Leave out the first step of all by opening the block only from the second on.  Raises ValueError for
        names that the module does not have.
        """
        from course_lib.timeline.layers import LayerMarks

        if self._thread is not None:
            raise RuntimeError("step() inside step(): a step must end before the next one begins")
        marks = LayerMarks(module, layers, self._clock.mark)
        self._layer_marks.append((marks, self._steps))
        self._thread, self._buckets = threading.get_ident(), itertools.count()
        try:
            yield
        finally:
            marks.remove()
            self._thread = None
            self._steps += 1

    def all_reduce(self, function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        """``function``, which reduces a tensor over all ranks; while a step is open, each call is recorded.

        Calls are numbered: "bucket 0" is the first of a step.  They may come from another thread, or another
        stream.  One from the step's own thread keeps a CPU from computing, and is recorded as a wait, too.
        ``function`` may return a Work, as ``dist.all_reduce`` does with ``async_op=True``: then the span ends
        with the reduction, and the call itself and ``wait()`` are recorded as waits.
        """

        @functools.wraps(function)  # who calls it looks whether it takes a group
        def recorded(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._thread is None:
                return function(tensor, *args, **kwargs)
            label, start = self._next_bucket(), self._begin()
            result = function(tensor, *args, **kwargs)
            self._add_wait(start)
            if hasattr(result, "get_future"):
                return _Work(self, result, label, start)
            self._add("communication", label, start, "communication")
            return result

        return recorded

    def comm_hook(self, hook: Callable) -> Callable:
        """A comm hook of torch's DistributedDataParallel with each bucket's reduction recorded.

        ``ddp.register_comm_hook(None, record.comm_hook(allreduce_hook))``.  Where the hook is made from an
        all-reduce, as by ``overlap.comm_hook``, record that instead: then a span has no time in a queue.
        """

        @functools.wraps(hook)  # DDP looks at the types in its signature
        def recorded(state: Any, bucket: Any) -> Any:
            if self._thread is None:
                return hook(state, bucket)
            label, start = self._next_bucket(), self._begin()
            future = hook(state, bucket)
            if future.done():
                self._add_wait(start)
            return future.then(lambda done: self._end(done, label, start))

        return recorded

    def _begin(self) -> _Start:
        return _Start(self._clock.mark(), self._steps)

    def _end(self, future: Any, label: str, start: _Start) -> Any:
        """The future's value, when it has one."""
        value = future.value()
        self._add("communication", label, start, "communication")
        return value

    def _next_bucket(self) -> str:
        return f"bucket {next(self._buckets)}"

    def _add_wait(self, start: _Start) -> None:
        """If this is the thread that would compute, and nothing has been said of a wait yet."""
        if self._clock.blocks and threading.get_ident() == self._thread and not self._waits:
            self._add("idle", "wait", start, "compute")

    def _add(self, kind: str, label: str, start: _Start, lane: str) -> None:
        self._marked.append((kind, label, start.mark, self._clock.mark(), lane, start.step))


class _Start(NamedTuple):
    """A mark of the clock, and the step that was open or came next: it may end after that step."""

    mark: Any
    step: int


class _Work:
    """A Work whose end and whose ``wait()`` are recorded; in all else it is the one it was made from."""

    def __init__(self, record: Recorder, work: Any, label: str, start: _Start) -> None:
        self._record, self._work = record, work
        self._done = work.get_future().then(lambda done: record._end(done, label, start))

    def wait(self, *args: Any) -> Any:
        with self._record("idle", "wait"):
            result = self._work.wait(*args)
            self._done.wait()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)
