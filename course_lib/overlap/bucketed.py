"""A module whose gradients are averaged over all ranks, bucket by bucket, during the backward pass.

Hooks of autograd tell when a gradient is there.  Stands on ``buckets`` (which parameters share one),
``bucket`` and ``channel`` (where reductions run).
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakTensorKeyDictionary

from course_lib import buckets
from course_lib.all_reduce import ring
from course_lib.arguments import true_or_false
from course_lib.data_parallel import broadcast_parameters
from course_lib.data_parallel.gradients import require_no_ddp
from course_lib.data_parallel.modules import parameters, require_same_modules
from course_lib.overlap import channel
from course_lib.overlap.bucket import Bucket, Place, dtype_of

if TYPE_CHECKING:
    from course_lib.noise_scale import Meter

# The BucketedDataParallel that has a parameter.  Not an attribute of it, which could not be saved with it.
_bucketed_by = WeakTensorKeyDictionary()


class BucketedDataParallel(torch.nn.Module):
    """Averages gradients over all ranks in buckets, and hides that behind the rest of the backward pass.

    Trained parameters are put into buckets in reverse order.  A hook moves each new gradient into its
    bucket, and ``parameter.grad`` is from then on a part of the bucket.  When a bucket is full, its
    all-reduce starts on a channel of its own: a thread, or on GPUs a CUDA stream.  All ranks start the
    buckets in the same order.  ``finish()`` starts what is left, the last bucket at least, and waits for all.

    ``bucket_mb``, ``first_bucket_mb``: MiB in a bucket, and in the first one, which can start early.
    ``overlap``: False starts all buckets in ``finish()``, in the calling thread.
    ``all_reduce(tensor)``: sums a row over all ranks in place; the course's ring by default, or
    ``dist.all_reduce``, or the learner's own.  It is called once for each bucket and step.  If it takes a
    ``group``, as these two do, it gets one that nothing else uses.  Else, and on GPUs, it uses the default
    group, and the step itself should not communicate before ``finish()``: the messages could meet.

    A gradient is None after ``finish()`` if it was on every rank, and a rank without one counts as zero where
    another has one: a flag for each parameter travels in its bucket.  The host waits for these flags.

    Gradients may arrive in several pieces, from several backward passes or from reentrant checkpointing.  A
    bucket expects as many as in the step before.  One that starts too early is averaged a second time in
    ``finish()``, by itself, so that the result is right and one more all-reduce was needed.

    All ranks begin with rank 0's parameters and buffers.  Buffers then stay each rank's own, as BatchNorm's
    statistics of the samples it saw; save rank 0's.  ``.module.state_dict()`` has the names without wrapper.

    ValueError for modules that differ between ranks, that hold DistributedDataParallel or are on several
    devices, and where there is nothing to train; in the backward pass for sparse gradients.  RuntimeError
    from ``optimizer.step()`` where ``finish()`` was forgotten, before any weight is changed; and from
    ``finish()`` where gradients were changed before it, or dropped on some ranks after their reduction had
    begun.  (``GradScaler.unscale_`` before ``finish()`` leaves no trace that could be seen: call it after.)
    """

    def __init__(
        self,
        module: torch.nn.Module,
        bucket_mb: float = 25.0,
        first_bucket_mb: float = 1.0,
        overlap: bool = True,
        all_reduce: channel.AllReduce | None = None,
    ):
        super().__init__()
        require_no_ddp(module)
        limits = buckets.limits(bucket_mb, first_bucket_mb)
        if not (all_reduce is None or callable(all_reduce)):
            raise ValueError(f"all_reduce={all_reduce!r}: expected a function that sums a tensor in place")
        broadcast_parameters(module)
        self.module = module
        self._overlap = true_or_false("overlap", overlap)
        trained = _trained(module)
        self._buckets = _fill(trained, *limits)
        for _, parameter in trained:
            _bucketed_by[parameter] = weakref.ref(self)
        device = self._buckets[0].row.device
        self._all_reduce = channel.apart(all_reduce, device)
        self._channel = channel.beside(device, self._all_reduce) if overlap else channel.InTurn()
        self._in_buckets = {place.parameter for bucket in self._buckets for place in bucket.places}
        self._next = 0  # the bucket to start
        self._synchronizing = True
        self._unfinished = False
        weakref.finalize(self, _remove, self._add_hooks())

    averages_gradients = True  # so that nothing else does it again

    @property
    def buckets(self) -> list[list[str]]:
        """The names of the parameters in each bucket, in the order in which buckets are reduced."""
        return [[place.name for place in bucket.places] for bucket in self._buckets]

    @property
    def started(self) -> int:
        """How many buckets' reductions have started in this step."""
        return sum(bucket.is_started for bucket in self._buckets)

    def __getstate__(self) -> dict:
        raise TypeError("a BucketedDataParallel can't be copied or saved, only its module: use .module")

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside only add up: for all micro-batches but the last one."""
        before, self._synchronizing = self._synchronizing, False
        try:
            yield
        finally:
            self._synchronizing = before

    def finish(self) -> None:
        """Wait until all gradients are averaged.  Once in a step, on every rank, before the optimizer's step.

        Also on a rank that had nothing to compute.  Raises RuntimeError inside ``no_sync()``, and what went
        wrong in an all-reduce.
        """
        if not self._synchronizing:
            raise RuntimeError("finish() inside no_sync(): call it after the block, once in a step")
        self._require_all_in_buckets()
        *others, last = self._buckets
        for bucket in others:
            if bucket.is_started and any(place.is_cleared for place in bucket.places):
                bucket.require_not_changed()
                bucket.reopen()
        for bucket in others[self._next :]:
            self._start(bucket)
        flags = [bucket.is_reopened for bucket in others] + [bucket.has_cleared for bucket in others]
        last.flags_of_step.copy_(torch.tensor(flags, dtype=torch.float32))
        self._start(last)
        for bucket in self._buckets:
            bucket.wait()
        flags_of_ranks = last.flags_of_step.tolist()
        _require_cleared_by_all_or_none(flags_of_ranks[len(others) :])
        self._average_again(flags_of_ranks[: len(others)])
        for bucket in self._buckets:
            bucket.hand_out(bucket.used.tolist())
            bucket.begin()
        self._next, self._unfinished = 0, False

    @property
    def local_norm_sq(self) -> torch.Tensor | None:
        """The squared norm of this rank's own gradient, as it was before the reduction; after ``finish()``.

        float64.  None where gradients were averaged in two pieces.
        """
        norms_sq = [bucket.local_norm_sq for bucket in self._buckets]
        known = [each.double() for each in norms_sq if each is not None]
        return torch.stack(known).sum() if len(known) == len(norms_sq) else None

    def update_meter(self, meter: Meter, samples: float) -> None:
        """Tell a noise meter of this step: after ``finish()``, before clipping, on every rank.

        ``samples``: of each rank, in the mean that its loss was.  The gradients of the ranks are the small
        batches, and their squared norms were taken before the reduction.  One all-reduce of 8 bytes more.
        Raises ValueError on a single rank, and where gradients were averaged in two pieces.
        """
        small = self.local_norm_sq
        if dist.get_world_size() == 1 or small is None:
            raise ValueError("the noise scale needs two ranks or more, and gradients reduced in one piece")
        ring(small)
        big = torch.stack([bucket.norm_sq().double() for bucket in self._buckets]).sum()
        ranks = dist.get_world_size()
        meter.update(small.item() / ranks, big.item(), samples, ranks * samples)

    def _average_again(self, reopened: list[float]) -> None:
        """What came too late on any rank.  Ranks on which nothing did add zero."""
        again = [bucket for bucket, flag in zip(self._buckets, reopened, strict=False) if flag]
        for bucket in again:
            if not bucket.is_reopened:
                bucket.reopen()
            self._start(bucket)
        for bucket in again:
            bucket.wait()
            bucket.close()

    def _start(self, bucket: Bucket) -> None:
        bucket.start(self._channel, self._all_reduce)

    def _require_all_in_buckets(self) -> None:
        for name, parameter in parameters(self.module):
            if parameter.grad is not None and parameter not in self._in_buckets:
                raise ValueError(
                    f"{name} has a gradient, but no bucket: it was frozen, or not there, when the buckets "
                    "were made; wrap the module again"
                )

    # --- called by autograd and by optimizers ---

    def _add_hooks(self) -> list[RemovableHandle]:
        handles = [register_optimizer_step_pre_hook(_weakly(self._before_step))]
        for bucket in self._buckets:
            for place in bucket.places:
                after = _weakly(self._after_gradient, place)
                handles.append(place.accumulation.register_prehook(place.before_gradient))
                handles.append(place.parameter.register_post_accumulate_grad_hook(after))
        return handles

    def _after_gradient(self, place: Place, parameter: torch.nn.Parameter) -> None:
        self._unfinished = True
        place.collect()
        self._channel.follow()
        if self._synchronizing:
            place.arrived += 1
            place.bucket.missing -= place.arrived == place.expected
            self._start_full()

    def _start_full(self) -> None:
        while self._overlap and self._next < len(self._buckets) - 1 and not self._buckets[self._next].missing:
            self._start(self._buckets[self._next])
            self._next += 1

    def _before_step(self, optimizer: torch.optim.Optimizer, arguments: tuple, named: dict) -> tuple | None:
        self._require_finished(optimizer)
        closure = named.get("closure", arguments[1] if len(arguments) > 1 else None)
        if closure is None:
            return None

        def checked() -> object:
            loss = closure()  # it may go backward itself
            self._require_finished(optimizer)
            return loss

        return arguments[:1], {**named, "closure": checked}

    def _require_finished(self, optimizer: torch.optim.Optimizer) -> None:
        stepped = (parameter for group in optimizer.param_groups for parameter in group["params"])
        if self._unfinished and any(parameter in self._in_buckets for parameter in stepped):
            raise RuntimeError(
                "optimizer.step() before finish(): the gradients are not averaged yet, and the weights of "
                "the ranks would go apart; call finish() first, once for all backward passes of the step"
            )


def _require_cleared_by_all_or_none(shares: list[float]) -> None:
    """Of each bucket, the share of ranks that have dropped a gradient which was on its way already."""
    if any(0 < share < 1 - 0.5 / dist.get_world_size() for share in shares):
        raise RuntimeError(
            "some ranks have dropped gradients, as by zero_grad(), that all ranks had begun to average, and "
            "others have not: their means would differ. Drop them on all ranks or on none, or run a backward "
            "pass that may be dropped inside no_sync()"
        )


def _trained(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    trained = {name: each for name, each in parameters(module) if each.requires_grad}
    require_same_modules(trained)
    if not trained:
        raise ValueError("the module has nothing to train: expected a parameter with requires_grad=True")
    for name, parameter in trained.items():
        if _bucketed_by.get(parameter, lambda: None)() is not None:
            raise ValueError(f"{name} is in another BucketedDataParallel already: expected one for a module")
    if len(devices := {str(parameter.device) for parameter in trained.values()}) > 1:
        raise ValueError(f"the parameters are on {' and '.join(sorted(devices))}: expected one device")
    return list(trained.items())


def _fill(trained: list[tuple[str, torch.nn.Parameter]], bucket_bytes: float, first: float) -> list[Bucket]:
    dtypes = [dtype_of(parameter) for _, parameter in trained]
    sizes = [each.numel() * dtype.itemsize for dtype, (_, each) in zip(dtypes, trained, strict=True)]
    indices = buckets.assign(sizes, bucket_bytes, first, dtypes)
    others = len(indices) - 1
    of_step = [0] * others + [2 * others]  # the last bucket speaks for the others: reopened? cleared?
    return [Bucket([trained[i] for i in each], flags) for each, flags in zip(indices, of_step, strict=True)]


def _weakly(method: Callable, *first: object) -> Callable:
    """Calls the method as long as its object is there, and keeps nothing alive."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: object) -> object:
        bound = reference()
        return None if bound is None else bound(*first, *arguments)

    return call


def _remove(handles: list[RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()
