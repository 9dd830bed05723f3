"""What benchmarks/gpu.py runs inside ranks: training steps in mixed precision, timed in turns, and recorded.

The same functions run on the CPU, where they show that they work, and nothing about GPUs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from course_lib import all_reduce_timing, corpus, measured_memory, ranks, timeline
from course_lib.all_reduce import ring
from course_lib.measured_memory import StepMemory
from course_lib.overlap import BucketedDataParallel
from course_lib.overlap_timing import DDP, IMPLEMENTATIONS
from course_lib.sharded import ShardedAdamW
from course_lib.timeline import Recorder, Span
from course_lib.timing import seconds_of
from course_lib.transformer import GPT, TransformerConfig

ALONE, RING, SAME = "no communication", "buckets, the ring", "buckets, torch's all-reduce"
DDP_RECORDED = "torch's DDP, recorded"  # through a hook in Python, so its time is not DDP's
COPIES, COPIES_IN_TURN = "copies beside backward", "copies after backward"
COPIED = "buckets go to the host and back, in the place of an all-reduce"
_WARM_UP = 4  # steps: DDP fills its buckets anew after the first one, and fp16's loss scale comes down


class Model(NamedTuple):
    """A GPT, and what each rank trains on in a step: ``batch`` pieces of ``sequence`` tokens."""

    name: str
    shape: TransformerConfig
    batch: int
    sequence: int


class Timed(NamedTuple):
    """This rank's seconds of each step; of one recorded step, those hidden and of all communication."""

    seconds: list[float]
    hidden: float
    communication: float


def half_type(capability: tuple[int, int]) -> torch.dtype:
    """The 16-bit type to multiply in: GPUs before compute capability 8.0, as V100 and T4, have no bf16."""
    return torch.bfloat16 if capability >= (8, 0) else torch.float16


def describe() -> dict:
    """This rank's device; on a GPU it shows that torch can use it, and NCCL on all of them."""
    device, one = ranks.device(), torch.ones(1, device=ranks.device())
    dist.all_reduce(one)
    if one.item() != dist.get_world_size():
        raise RuntimeError(f"an all-reduce of ones gave {one.item()}")
    if device.type == "cpu":
        software = f"torch {torch.__version__}"
        return {"name": "CPU", "memory_bytes": 0, "type": torch.float32, "software": software}
    properties = torch.cuda.get_device_properties(device)
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "type": half_type((properties.major, properties.minor)),
        "software": f"torch {torch.__version__}, CUDA {torch.version.cuda}, NCCL {nccl}",
    }


def all_reduces(sizes: Sequence[int], repeats: int) -> list[dict[str, list[float]]]:
    """For each size in bytes, this rank's seconds of the ring and of torch's own all-reduce."""
    names = ["ring", all_reduce_timing.TORCH]
    return [all_reduce_timing.take_turns(names, size // 4, repeats) for size in sizes]


def sharded_state(model: Model, dtype: torch.dtype) -> int:
    """Bytes of model state that this rank holds after a step of the sharded AdamW, with 16-bit weights."""
    module = GPT(model.shape, attention="fused").to(ranks.device(), dtype)
    optimizer = ShardedAdamW(module.parameters(), lr=1e-4)
    tokens = torch.randint(model.shape.vocab, (1, model.sequence), device=ranks.device())
    module(tokens).float().logsumexp(-1).mean().backward()
    optimizer.step()
    return optimizer.state_bytes().total


def step_memory(model: Model, recipe: str) -> StepMemory:
    return measured_memory.training_step(
        model.shape, model.batch, model.sequence, recipe, fake=False, attention="fused",
        device=str(ranks.device()),
    )  # fmt: skip


# --- training steps ---


class ThereAndBack:
    """In the place of an all-reduce on one GPU: a row goes to the host and comes back.

    So it takes the time of a link, and the GPU's copy engines and hardly any of its computing units.
    """

    def __init__(self) -> None:
        self._on_host: dict[int, torch.Tensor] = {}

    def __call__(self, row: torch.Tensor) -> None:
        if row.nbytes not in self._on_host:
            self._on_host[row.nbytes] = torch.empty(row.shape, dtype=row.dtype, pin_memory=row.is_cuda)
        on_host = self._on_host[row.nbytes]
        on_host.copy_(row, non_blocking=True)
        row.copy_(on_host, non_blocking=True)


def _bucketed(all_reduce: Callable[[torch.Tensor], object], overlap: bool = True) -> Callable:
    return lambda module, bucket_mb, record: BucketedDataParallel(
        module, bucket_mb, bucket_mb, overlap, record.all_reduce(all_reduce)
    )


def _ddp_recorded(module: torch.nn.Module, bucket_mb: float, record: Recorder) -> torch.nn.Module:
    model = IMPLEMENTATIONS[DDP].wrap(module, bucket_mb)
    model.register_comm_hook(None, record.comm_hook(allreduce_hook))
    return model


WAYS = {
    ALONE: lambda module, bucket_mb, record: module,
    DDP: lambda module, bucket_mb, record: IMPLEMENTATIONS[DDP].wrap(module, bucket_mb),
    DDP_RECORDED: _ddp_recorded,
    RING: _bucketed(ring),
    SAME: _bucketed(dist.all_reduce),
    COPIES: _bucketed(ThereAndBack()),
    COPIES_IN_TURN: _bucketed(ThereAndBack(), overlap=False),
}


class Training:
    """Steps of a model in one of WAYS: fp32 weights and gradients, 16-bit products under autocast, AdamW.

    ``dtype``: of the products.  fp16 needs its loss scaled, and fp32 no autocast.
    """

    def __init__(self, model: Model, dtype: torch.dtype, bucket_mb: float, way: str):
        torch.manual_seed(0)
        device = ranks.device()
        self.record = Recorder()
        self.module = GPT(model.shape, attention="fused").to(device)
        self.parallel = WAYS[way](self.module, bucket_mb, self.record)
        self._optimizer = torch.optim.AdamW(self.module.parameters(), lr=1e-4, fused=True)
        self._scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
        self._cast = lambda: torch.autocast(device.type, dtype, enabled=dtype != torch.float32)
        data = corpus.batch(corpus.tokens(), model.batch, model.sequence,
                            torch.Generator().manual_seed(dist.get_rank()))  # fmt: skip
        self._inputs, self._targets = (part.to(device) for part in data)

    def step(self, record: Callable = lambda *_: contextlib.nullcontext()) -> None:
        with self._cast():
            logits = self.parallel(self._inputs)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self._targets.flatten())
        self._scaler.scale(loss).backward()
        with record("idle", "wait"):
            getattr(self.parallel, "finish", lambda: None)()
        with record("optimizer state", "optimizer"):
            self._scaler.step(self._optimizer)
            self._scaler.update()
            self._optimizer.zero_grad()

    def recorded_step(self) -> list[Span]:
        dist.barrier()
        with self.record.step(self.module):
            self.step(self.record)
        return self.record.spans


def take_turns(
    model: Model, dtype: torch.dtype, bucket_mb: float, ways: Sequence[str], steps: int
) -> dict[str, Timed]:
    """This rank's times of each way; they take turns, so that what else the machine does meets all."""
    trainings = {way: Training(model, dtype, bucket_mb, way) for way in ways}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(_WARM_UP + steps):
        for way, training in trainings.items():
            taken = seconds_of(training.step)
            seconds[way] += [taken] if number >= _WARM_UP else []
    return {way: Timed(seconds[way], *_hidden(training)) for way, training in trainings.items()}


def _hidden(training: Training) -> tuple[float, float]:
    """Seconds hidden, and of all communication, in one step; both 0 where nothing is recorded."""
    spans = training.recorded_step()
    both = (timeline.hidden_seconds(spans), timeline.exposed_seconds(spans))
    hidden, exposed = (sum(seconds.values()) for seconds in both)
    return hidden, hidden + exposed


def record_step(model: Model, dtype: torch.dtype, bucket_mb: float, way: str) -> list[Span]:
    """This rank's spans of one step, after those in which buffers are made."""
    training = Training(model, dtype, bucket_mb, way)
    for _ in range(_WARM_UP):
        seconds_of(training.step)
    return training.recorded_step()
