"""How much of what the hardware can do a training run gets done, where the rest goes, and what it costs.

    flops = flops_per_token(parameters=540.35e9, layers=118, heads_times_head_dim=48 * 256, sequence=2048)
    utilization(238_300, flops, devices=6144, peak_flops=275e12)      # 0.462: PaLM

U = achieved tokens/s / peak tokens/s.  Peak FLOP/s are dense ones of the type that is multiplied in, of one
device.  U alone does not tell a slow network from slow computing: ``Parts`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.arguments import number, one_of, whole_number
from course_lib.transformer import RECOMPUTE

MOST_UNEXPLAINED = 0.05  # of a step; above it, its parts are not to be trusted
_SECONDS_PER_HOUR = 3600

# --- FLOPs of a token ---


def flops_per_token(
    parameters: float, layers: int, heads_times_head_dim: int, sequence: int
) -> float:
    """FLOPs that the model needs for one token, forward and backward: 6P + 12·L·H·Q·T.

    As in PaLM (arXiv 2204.02311), Appendix B: L layers, H heads of size Q, T = ``sequence``.  H·Q is not the
    hidden size in every model.  Causal attention is not halved, and recomputation is not counted.
    """
    attention = _attention(layers, heads_times_head_dim, sequence)
    return 6 * number("parameters", parameters) + 3 * attention


def hardware_flops_per_token(
    parameters: float, layers: int, heads_times_head_dim: int, sequence: int, recompute: str = "none"
) -> float:
    """FLOPs that the hardware does for one token: ``flops_per_token``, and what is computed a second time.

    ``recompute``: "none"; "full", all of the forward pass, so that the sum is 4/3 of the model's FLOPs;
    "selective", attention's products of queries, keys, scores and values, counted as where it was published:
    Korthikanti et al. (arXiv 2205.05198), equation 8, has 12·L·H·Q·T for them, and so have the HFUs of their
    table.  (By their text it is a third of that, what their second forward pass takes.)
    """
    needed = flops_per_token(parameters, layers, heads_times_head_dim, sequence)
    attention = _attention(layers, heads_times_head_dim, sequence)
    again = {"none": 0.0, "selective": 3 * attention, "full": needed / 3}
    return needed + again[one_of("recompute", recompute, RECOMPUTE)]


def _attention(layers: int, heads_times_head_dim: int, sequence: int) -> float:
    """Of one token's forward pass: queries times keys, and scores times values."""
    sizes = whole_number("heads_times_head_dim", heads_times_head_dim) * whole_number("sequence", sequence)
    return 4.0 * whole_number("layers", layers) * sizes


def matmul_flops_per_token(
    layers: int, hidden: int, vocab: int, sequence: int, recompute: str = "none"
) -> float:
    """FLOPs of the matrix products alone for one token of a GPT whose MLP is 4·hidden wide; logits included.

    Without recomputation 72·L·h²·(1 + s/(6h) + v/(12hL)), and with "selective" s/(3h) in the place of s/(6h):
    Korthikanti et al. (arXiv 2205.05198), equations 7 and 8; ``hardware_flops_per_token`` says more of the
    latter.  With "full" 96·L·h²·(1 + s/(6h) + v/(16hL)): Narayanan et al. (arXiv 2104.04473), equation 3.
    """
    wide, length = whole_number("hidden", hidden), whole_number("sequence", sequence)
    passes = {"none": 3, "selective": 3, "full": 4}[one_of("recompute", recompute, RECOMPUTE)]
    attention = length / ((3 if recompute == "selective" else 6) * wide)
    layer = 24 * passes * wide**2 * (1 + attention)
    return whole_number("layers", layers) * layer + 6 * whole_number("vocab", vocab) * wide


# --- U ---


def peak_tokens_per_second(flops_per_token: float, devices: int, peak_flops: float) -> float:
    """Tokens per second if all devices did nothing but the model's FLOPs, at their peak.

    ``peak_flops``: dense FLOP/s of one device.
    """
    peak = whole_number("devices", devices) * number("peak_flops", peak_flops)
    return peak / number("flops_per_token", flops_per_token)


def utilization(
    tokens_per_second: float, flops_per_token: float, devices: int, peak_flops: float
) -> float:
    """U, achieved tokens/s of all devices together / peak tokens/s.

    With the FLOPs that the model needs this is the model FLOPs utilization, MFU; with those that the hardware
    does, the hardware FLOPs utilization, HFU.  Only MFU says how fast training is: recomputation raises HFU.

    It is not refused above 1, which a peak that was measured on a busy machine may give.  Above 1 with a data
    sheet's peak, one of the numbers is another device's, type's or unit's.
    """
    achieved = number("tokens_per_second", tokens_per_second, least=0)
    return achieved / peak_tokens_per_second(flops_per_token, devices, peak_flops)


def mfu(
    tokens_per_second: float, parameters: float, layers: int, heads_times_head_dim: int, sequence: int,
    devices: int, peak_flops: float,
) -> float:  # fmt: skip
    """Model FLOPs utilization: recomputation does not count."""
    flops = flops_per_token(parameters, layers, heads_times_head_dim, sequence)
    return utilization(tokens_per_second, flops, devices, peak_flops)


def hfu(
    tokens_per_second: float, parameters: float, layers: int, heads_times_head_dim: int, sequence: int,
    devices: int, peak_flops: float, recompute: str = "none",
) -> float:  # fmt: skip
    """Hardware FLOPs utilization: what is computed a second time counts, too."""
    flops = hardware_flops_per_token(parameters, layers, heads_times_head_dim, sequence, recompute)
    return utilization(tokens_per_second, flops, devices, peak_flops)


# --- the bill ---


def gpu_hours(tokens: float, tokens_per_second: float, devices: int, share: float = 1.0) -> float:
    """Hours of all devices together that training on ``tokens`` takes; or the given share of them.

    ``share``: as of ``Parts.shares()``, what is exposed or idle.
    """
    seconds = number("tokens", tokens) / number("tokens_per_second", tokens_per_second)
    hours = seconds / _SECONDS_PER_HOUR * whole_number("devices", devices)
    return hours * number("share", share, least=0, most=1)


# --- the waterfall ---


@dataclass(frozen=True)
class Parts:
    """A training step and its parts, each measured by itself; means over the ranks.

    ``peak_flops``: FLOP/s of all devices together.  ``flops``: what the model needs in one step, of all
    devices together.  In seconds: ``step``, the whole of it; ``compute``, forward and backward without
    communication; ``exposed``, waiting for gradients where no other rank is late; ``optimizer``; ``data``,
    getting a batch; ``idle``, waiting for ranks that are late; ``slowed``, what forward and backward take
    longer with buckets that are filled and under way beside them (below 0 only by chance).

    The parts come from runs of their own, so they need not add up to the step: ``unexplained`` is what is
    left, below 0 if they overlap or cost more alone.  Raises ValueError for numbers that can't be.
    """

    peak_flops: float
    flops: float
    step: float
    compute: float
    exposed: float
    optimizer: float
    data: float
    idle: float
    slowed: float = 0.0

    def __post_init__(self) -> None:
        for name in ("peak_flops", "flops", "step", "compute"):
            number(name, getattr(self, name))
        for name in ("exposed", "optimizer", "data", "idle"):
            number(name, getattr(self, name), least=0)
        number("slowed", self.slowed, least=-self.compute)

    @property
    def at_peak(self) -> float:
        """Seconds that the model's FLOPs take at peak."""
        return self.flops / self.peak_flops

    @property
    def utilization(self) -> float:
        """U of the step."""
        return self.at_peak / self.step

    @property
    def unexplained(self) -> float:
        """Seconds of the step that no part accounts for; below 0, seconds that two parts account for."""
        known = self.compute + self.slowed + self.exposed + self.optimizer + self.data + self.idle
        return self.step - known

    @property
    def is_explained(self) -> bool:
        """Whether at most ``MOST_UNEXPLAINED`` of the step are, either way."""
        return abs(self.unexplained) <= MOST_UNEXPLAINED * self.step

    def shares(self) -> dict[str, float]:
        """What takes the step from peak to U: shares of the step, which add up to 1 with U itself, the last.

        The computing's own share is what it takes beyond the time at peak.
        """
        seconds = {
            "compute below peak": self.compute - self.at_peak,
            "slowed by communication": self.slowed,
            "exposed communication": self.exposed,
            "optimizer": self.optimizer,
            "data": self.data,
            "idle": self.idle,
            "unexplained": self.unexplained,
        }
        return {name: each / self.step for name, each in seconds.items()} | {"achieved": self.utilization}
