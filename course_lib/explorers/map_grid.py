"""The numbers of the map: memory, step and utilization of models of any size on up to 4,096 ranks.

    setting = Setting(card="h100-sxm", latency=10e-6, bandwidth=50e9, tokens=8192, micro_batches=1)
    spot(setting, parameters=1_300_000_000, ranks=64).utilization
    grid(setting).utilization                     # for RANKS and COLUMNS of models, at once

Nothing here was measured.  Models have GPT-3's proportions, and keep and compute what ``memory``,
``activations`` and ``TransformerConfig.flops_per_token`` say.  Their steps are the simulator's, with buckets
of DDP's sizes and rings that take what ``cost_model`` says.  Two numbers are assumptions, the same for all
models and cards: ``COMPUTE_SHARE`` and ``OPTIMIZER_TRAFFIC``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from typing import Any, NamedTuple, TypeVar

import numpy as np

from course_lib.activations import model_bytes
from course_lib.arguments import number, one_of, whole_number
from course_lib.cost_model import all_reduce_seconds, terms
from course_lib.explorers.gpt_layers import gpt_layers
from course_lib.explorers.memory_wall import shape_for
from course_lib.hardware import ACCELERATORS, Accelerator
from course_lib.memory import model_state
from course_lib.noise_scale import critical_batch_tokens, tradeoff
from course_lib.simulator import MOST_RANKS, Layer, Step, channel_end, simulate_step
from course_lib.transformer import TransformerConfig
from course_lib.utilization import utilization

T = TypeVar("T")
COMPUTE_SHARE = 0.5  # of the peak, while nothing is communicated: published runs on 8 GPUs reach 40 to 64%
OPTIMIZER_TRAFFIC = 28  # bytes a parameter: Adam reads gradient, master, moments; writes these three, weights
COSTLY = 0.1  # of a step: where so much of it is exposed, communication has begun to cost
SEQUENCE = 2048  # tokens
MOST_SEQUENCES, MOST_MICRO_BATCHES = 64, 64
CARDS = [name for name, card in ACCELERATORS.items()
         if card.memory_bytes and card.bandwidth and (card.bf16_flops or card.fp16_flops)]  # fmt: skip
HIDES, WALL, LATENCY, BANDWIDTH = REGIONS = ("communication hides", "memory wall", "latency", "bandwidth")
_BUCKETS: dict[str, Any] = {"bucket_mb": 25.0, "first_bucket_mb": 1.0}  # torch's DDP
_GRADIENT = 2  # bytes of an element


def _known(value: T | None) -> T:
    """A number of one of CARDS."""
    assert value is not None, "CARDS leaves out cards of which it is not known"
    return value


@dataclass(frozen=True)
class Setting:
    """What the whole map has in common.

    ``latency``: seconds of a message.  ``bandwidth``: bytes/s of a link in one direction.  ``tokens``: of a
    micro-batch on each rank, in sequences of ``SEQUENCE``.  ``loss``: nats per token, at which the batch is
    judged.  Raises ValueError for what is not on the sliders, or can't be.
    """

    card: str = "h100-sxm"
    latency: float = 10e-6
    bandwidth: float = 50e9
    tokens: int = 4 * SEQUENCE
    micro_batches: int = 1
    loss: float = 2.5

    def __post_init__(self) -> None:
        one_of("card", self.card, CARDS)
        number("latency", self.latency, least=0)
        number("bandwidth", self.bandwidth)
        sequences, rest = divmod(whole_number("tokens", self.tokens), SEQUENCE)
        if rest or sequences > MOST_SEQUENCES:
            raise ValueError(f"tokens={self.tokens!r}: expected a multiple of {SEQUENCE:,}, "
                             f"{MOST_SEQUENCES * SEQUENCE:,} at most")  # fmt: skip
        number("micro_batches", whole_number("micro_batches", self.micro_batches), 1, MOST_MICRO_BATCHES)
        number("loss", self.loss, least=2, most=6)

    @property
    def hardware(self) -> Accelerator:
        return ACCELERATORS[self.card]

    @property
    def peak(self) -> float:
        """FLOP/s, dense, of a 16-bit type."""
        return _known(self.hardware.bf16_flops or self.hardware.fp16_flops)

    @property
    def memory_bytes(self) -> int:
        return _known(self.hardware.memory_bytes)

    @property
    def step_tokens(self) -> int:
        """Of each rank in a step."""
        return self.tokens * self.micro_batches

    @property
    def critical_batch(self) -> float:
        """Tokens, by Kaplan's formula."""
        return critical_batch_tokens(self.loss)

    @property
    def critical_ranks(self) -> float:
        """With so many the batch is the critical one."""
        return self.critical_batch / self.step_tokens

    def examples(self, ranks: int) -> float:
        """Tokens until a loss is reached, in times of the least."""
        return tradeoff(ranks * self.step_tokens, self.critical_batch)[1]


# --- models ---


def shape(layers: int) -> TransformerConfig:
    """GPT-3's proportions: each layer is 128 · layers wide."""
    return replace(shape_for(12 * 128**2 * layers**3), context=SEQUENCE, learned_positions=True)


_LAYERS = range(6, 217)
PARAMETERS = [shape(layers).parameters for layers in _LAYERS]  # all models that there are, the smallest first
LEAST, MOST = 10**8, 2 * 10**12  # parameters that may be asked for


@dataclass(frozen=True)
class Model:
    """A GPT and its step without other ranks.

    ``work``: FLOPs of a sequence, forward and backward; ``ready``: how many of them are done when each bucket
    is ready.  ``bytes``: of each bucket.
    """

    config: TransformerConfig
    work: float
    ready: np.ndarray
    bytes: np.ndarray

    def memory(self, setting: Setting) -> int:
        """Bytes on a rank: model state, and activations with fused attention."""
        kept = model_bytes(self.config, setting.tokens // SEQUENCE, SEQUENCE, attention="fused")
        return model_state(self.config.parameters).total + kept

    def ready_seconds(self, setting: Setting) -> np.ndarray:
        """Since the step began: buckets wait for the last micro-batch."""
        done = self.ready + (setting.micro_batches - 1) * self.work
        return done * setting.tokens / SEQUENCE / (COMPUTE_SHARE * setting.peak)

    def backward_end(self, setting: Setting) -> float:
        return self.work * setting.step_tokens / SEQUENCE / (COMPUTE_SHARE * setting.peak)

    def optimizer_seconds(self, setting: Setting) -> float:
        return OPTIMIZER_TRAFFIC * self.config.parameters / _known(setting.hardware.bandwidth)


@lru_cache(maxsize=len(_LAYERS))
def _model(layers: int) -> Model:
    config = shape(layers)
    step = simulate_step(_layers(config, 1.0), lambda size: 0.0, **_BUCKETS)
    ready, sizes = zip(*((bucket.ready, bucket.bytes) for bucket in step.buckets), strict=True)
    return Model(config, step.backward_end, np.array(ready), np.array(sizes))


def _layers(config: TransformerConfig, flops: float, sequences: int = 1) -> list[Layer]:
    return gpt_layers(config, sequences, SEQUENCE, flops, _GRADIENT)


def model_near(parameters: float) -> Model:
    """The one whose number of parameters is nearest, as a ratio.  Raises ValueError off the map."""
    return _model(_LAYERS[_nearest(number("parameters", parameters, least=LEAST, most=MOST))])


def _nearest(parameters: float) -> int:
    """Its place in PARAMETERS."""
    return min(range(len(PARAMETERS)), key=lambda place: abs(log(PARAMETERS[place] / parameters)))


# --- one place on the map ---


@dataclass(frozen=True)
class Spot:
    """One model on some ranks: bytes on each of them, and the simulator's step."""

    setting: Setting
    parameters: int
    ranks: int
    memory: int
    step: Step
    flops_per_token: int

    @property
    def utilization(self) -> float:
        rate = self.batch / self.step.seconds
        return utilization(rate, self.flops_per_token, self.ranks, self.setting.peak)

    @property
    def batch(self) -> int:
        """B_eff, in tokens."""
        return self.ranks * self.setting.step_tokens

    @property
    def fits(self) -> bool:
        return self.memory <= self.setting.memory_bytes

    @property
    def latency_seconds(self) -> float:
        """Of all messages of the step, one after another, if they carried nothing."""
        return len(self.step.buckets) * terms("ring", self.ranks).messages * self.setting.latency

    @property
    def region(self) -> str:
        if not self.fits:
            return WALL
        if self.step.exposed_seconds < COSTLY * self.step.seconds:
            return HIDES
        communication = self.step.exposed_seconds + self.step.hidden_seconds
        return LATENCY if self.latency_seconds > communication / 2 else BANDWIDTH


def spot(setting: Setting, parameters: float, ranks: int) -> Spot:
    """Of the model that is nearest to so many parameters.  Raises ValueError for what is off the map."""
    model = model_near(parameters)
    count = int(number("ranks", whole_number("ranks", ranks), 1, MOST_RANKS))
    step = simulate_step(
        _layers(model.config, COMPUTE_SHARE * setting.peak, setting.tokens // SEQUENCE),
        lambda size: all_reduce_seconds("ring", size, count, setting.latency, setting.bandwidth),
        micro_batches=setting.micro_batches, optimizer_seconds=model.optimizer_seconds(setting), **_BUCKETS,
    )  # fmt: skip
    return Spot(setting, model.config.parameters, count, model.memory(setting), step,
                model.config.flops_per_token(SEQUENCE))  # fmt: skip


# --- all of it ---

_COLUMNS, _PER_OCTAVE = 72, 4
RANKS = [*range(1, 8), *(round(2 ** (n / _PER_OCTAVE)) for n in range(3 * _PER_OCTAVE, 12 * _PER_OCTAVE + 1))]
_PLACES = sorted(set(map(_nearest, np.geomspace(LEAST, MOST, _COLUMNS))))  # nearly even, as powers of ten
COLUMNS = [PARAMETERS[place] for place in _PLACES]


class Grid(NamedTuple):
    """``utilization`` and ``region``, an index of REGIONS, of each of RANKS and, along a row, of COLUMNS.

    Behind the memory wall no step runs: the utilization is NaN.
    """

    utilization: np.ndarray
    region: np.ndarray


def grid(setting: Setting) -> Grid:
    columns = [_column(setting, _model(_LAYERS[place])) for place in _PLACES]
    return Grid(*(np.stack(each, axis=1) for each in zip(*columns, strict=True)))


_MESSAGES, _TENSORS = np.array([terms("ring", ranks) for ranks in RANKS]).T[:, :, None]


def _column(setting: Setting, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Of one model, for each of RANKS."""
    if model.memory(setting) > setting.memory_bytes:
        return np.full(len(RANKS), np.nan), np.full(len(RANKS), REGIONS.index(WALL))
    latency = _MESSAGES * setting.latency
    seconds = latency + _TENSORS * (model.bytes / setting.bandwidth)
    backward_end = model.backward_end(setting)
    exposed = channel_end(model.ready_seconds(setting), seconds) - backward_end
    step = backward_end + exposed + model.optimizer_seconds(setting)
    by_latency = len(model.bytes) * latency[:, 0] > seconds.sum(axis=1) / 2
    costly = np.where(by_latency, REGIONS.index(LATENCY), REGIONS.index(BANDWIDTH))
    return backward_end * COMPUTE_SHARE / step, np.where(exposed < COSTLY * step, 0, costly)
