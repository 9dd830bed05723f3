"""What a training run is asked to do.

Plain data, checked when it is made, so that a rank can trust it.  No torch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from course_lib.arguments import number, one_of, true_or_false, whole_number
from course_lib.links import Links
from course_lib.transformer import TransformerConfig

DTYPES = ("auto", "float32", "float64", "bf16", "fp16")
DATA_PARALLEL = ("buckets", "ddp", "step")
ALL_REDUCE = ("ring", "torch")
VOCAB = 256  # bytes
DEFAULT_RANKS = 2  # where nobody says how many

# A run can be resumed with other values of all the others.
_OF_A_RUN = (
    "steps", "batch", "sequence", "layers", "hidden", "heads", "dropout",
    "learning_rate", "warmup", "max_norm", "seed",
)  # fmt: skip
_WHOLE = ("steps", "batch", "micro_batches", "sequence", "checkpoint_every", "print_every")
_OPTIONS = {"dtype": DTYPES, "data_parallel": DATA_PARALLEL, "all_reduce": ALL_REDUCE}
_PATHS = ("checkpoint", "mine", "log")


@dataclass(frozen=True)
class Settings:
    """All that ``course train`` can be told.  Raises ValueError for what can't be.

    ``steps``: of the optimizer, in the whole run.  ``ranks``: None for those that torchrun started, else 2.
    ``batch``: sequences in a step, of all ranks together; each rank takes its part in ``micro_batches``
    pieces.  ``sequence``: tokens, which are bytes.  ``layers``, ``hidden``, ``heads``, ``dropout``: of the
    GPT.  ``dtype``: "bf16" and "fp16" are what matrices are multiplied in, while weights stay in float32;
    "auto" is float32 on the CPU, and on GPUs bf16 where all have it, else fp16.

    ``learning_rate``: the highest one, after ``warmup`` steps; then it falls along a cosine.  ``max_norm``:
    to which gradients are clipped, or None.  ``seed``: of weights, data and dropout.

    ``data_parallel``: "buckets", the course's; "ddp", torch's; "step", each parameter when the backward pass
    is over, as ``data_parallel.train_step`` does it.  ``all_reduce``: "ring", the course's or the learner's,
    or "torch".  ``bucket_mb``: MiB in a bucket.  ``mine``: a folder with the learner's exercises.
    ``links``: a rate such as "400mbit", of slow links between the ranks that are started here.

    ``checkpoint``: a folder to write checkpoints to, after every ``checkpoint_every`` steps, and to resume
    from.  ``stop_after``: end, as if asked to, after so many steps.  ``log``: a file that gets a line of JSON
    for each step.  ``print_every``: steps between two lines.  ``utilization``: measure this machine's peak
    first, for U.  ``quiet``: no lines, and no progress bar.  ``timeout``: seconds until ranks that don't
    answer are given up.
    """

    steps: int = 200
    ranks: int | None = None
    batch: int = 16
    micro_batches: int = 1
    sequence: int = 128
    layers: int = 4
    hidden: int = 128
    heads: int = 4
    dropout: float = 0.0
    dtype: str = "auto"
    learning_rate: float = 2e-3
    warmup: int = 10
    max_norm: float | None = 1.0
    seed: int = 0
    data_parallel: str = "buckets"
    all_reduce: str = "ring"
    bucket_mb: float = 25.0
    mine: Path | None = None
    links: str | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 50
    stop_after: int | None = None
    log: Path | None = None
    print_every: int = 10
    utilization: bool = True
    quiet: bool = False
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for name in _WHOLE:
            self._set(name, whole_number(name, getattr(self, name)))
        for name in ("warmup", "seed"):
            self._set(name, whole_number(name, getattr(self, name), least=0))
        for name in ("ranks", "stop_after"):
            if getattr(self, name) is not None:
                self._set(name, whole_number(name, getattr(self, name)))
        for name in ("learning_rate", "timeout"):
            self._set(name, number(name, getattr(self, name)))
        if self.max_norm is not None:
            self._set("max_norm", number("max_norm", self.max_norm))
        if self.bucket_mb != math.inf:
            self._set("bucket_mb", number("bucket_mb", self.bucket_mb))
        for name, options in _OPTIONS.items():
            one_of(name, getattr(self, name), options)
        for name in ("utilization", "quiet"):
            true_or_false(name, getattr(self, name))
        for name in _PATHS:
            if getattr(self, name) is not None:
                self._set(name, Path(getattr(self, name)))
        self._check_together()

    def _check_together(self) -> None:
        _ = self.config, self.slow_links  # which check their own
        if self.seed >= 2**63:  # torch's generators take no more
            raise ValueError(f"seed={self.seed}: expected less than 2**63")
        if self.ranks is not None:
            self.check_division(self.ranks)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen for everyone else

    def check_division(self, ranks: int) -> None:
        """Raises ValueError where the batch can't be divided over so many ranks."""
        if self.batch < ranks * self.micro_batches:
            raise ValueError(
                f"batch={self.batch}: expected at least {ranks * self.micro_batches}, a sequence for each of "
                f"{ranks} × {self.micro_batches} micro-batches"
            )

    @property
    def config(self) -> TransformerConfig:
        return TransformerConfig(
            self.layers, self.hidden, self.heads, VOCAB, context=self.sequence, dropout=self.dropout)

    @property
    def slow_links(self) -> Links | None:
        return None if self.links is None else Links(self.links)

    @property
    def tokens(self) -> int:
        """B_eff: tokens in a step, of all ranks together."""
        return self.batch * self.sequence

    def of_a_run(self) -> dict:
        """What has to be the same when a run is resumed."""
        values = asdict(self)
        return {name: values[name] for name in _OF_A_RUN}
