"""Part 3: how long a step takes on a cluster whose ranks and links are not all alike.

What is expected is what the simulator finds, which goes through each rank.  It knows of some slack that no
formula of one line has: a rank far away from a slow link may be a little late, and nobody waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median

from course_lib import simulator
from course_lib.checks import draws, given, mistakes
from course_lib.checks.exercise_07 import queueing
from course_lib.checks.given import Cluster, Work
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.tolerance import near

ARGUMENTS = (given.work, given.cluster)
TOLERANCE = 0.03
_FORWARD = 1 / 3  # of a pass


def _work(
    layers: int, layer_bytes: int, last_bytes: int, pass_seconds: float, micro_batches: int, optimizer: float
) -> Work:
    """A bucket for each layer, and one for the embedding, which is complete when the pass ends."""
    each = (1 - _FORWARD) / (layers + 1)
    ready = [pass_seconds * (_FORWARD + each * (number + 1)) for number in range(layers)]
    times = (*(round(time, 6) for time in ready), pass_seconds)
    return Work(pass_seconds, micro_batches, times, (*layers * (layer_bytes,), last_bytes), optimizer)


def _small(micro_batches: int) -> Work:
    """GPT-2's smallest, fp32 gradients."""
    return _work(12, 28_351_488, 157_538_304, 0.0564, micro_batches, 0.004)


def _large(micro_batches: int) -> Work:
    """1.3 billion parameters, bf16 gradients."""
    return _work(24, 100_700_000, 210_000_000, 0.42, micro_batches, 0.025)


def _going_on(work: Work) -> Work:
    """After its last bucket the backward pass goes on, to the inputs."""
    return work._replace(ready=tuple(round(0.8 * time, 6) for time in work.ready))


def _cut_small(micro_batches: int) -> Work:
    """GPT-2's smallest in many small buckets."""
    return _work(72, 4_725_248, 157_538_304, 0.0564, micro_batches, 0.004)


def _cluster(
    ranks: int, latency: float, bandwidth: float, slow_link: tuple[int, float] | None = None,
    slow: dict[int, float] | None = None, jitter: float = 0.0,
) -> Cluster:  # fmt: skip
    """``slow_link``: a rank, and the bandwidth to its right neighbor.  ``slow``: factors by rank."""
    bandwidths, random = [bandwidth] * ranks, draws.random(ranks)
    if slow_link:
        bandwidths[slow_link[0]] = slow_link[1]
    factors = [round(math.exp(jitter * random.gauss(0, 1)), 4) for _ in range(ranks)]
    for rank, factor in (slow or {}).items():
        factors[rank] = factor
    return Cluster(ranks, latency, tuple(bandwidths), tuple(factors))


# title: work, cluster
_SITUATIONS: dict[str, tuple[Work, Cluster]] = {
    "8 ranks, all alike, 25 Gbit/s, K = 1": (_small(1), _cluster(8, 20e-6, 3.125e9)),
    "8 ranks, all alike, 200 Gbit/s, K = 2": (_small(2), _cluster(8, 20e-6, 25e9)),
    "64 ranks, one link has a quarter of 200 Gbit/s, K = 1": (
        _small(1), _cluster(64, 20e-6, 25e9, slow_link=(17, 6.25e9))),
    "16 ranks, one takes twice as long, K = 1": (_small(1), _cluster(16, 10e-6, 3.125e9, slow={5: 2.0})),
    "4 ranks, an optimizer that takes long, one takes 1.5 times as long, K = 1": (
        _large(1)._replace(optimizer_seconds=0.25), _cluster(4, 10e-6, 50e9, slow={2: 1.5})),
    "64 ranks scatter by 6%, K = 4": (_large(4), _cluster(64, 10e-6, 12.5e9, jitter=0.06)),
    "3 ranks, many small buckets, 500 µs a message, K = 1": (_cut_small(1), _cluster(3, 5e-4, 3.125e9)),
    "512 ranks, many small buckets, K = 2": (_cut_small(2), _cluster(512, 20e-6, 25e9)),
    "4 ranks, one takes 1.5 times as long, the backward pass goes on to the inputs, K = 1": (
        _going_on(_small(1)), _cluster(4, 10e-6, 50e9, slow={1: 1.5})),
    "1 rank, the backward pass goes on to the inputs, K = 2": (
        _going_on(_small(2)), _cluster(1, 20e-6, 25e9)),
    "32 ranks, a slow link and a slow rank, K = 2": (
        _large(2), _cluster(32, 10e-6, 25e9, slow_link=(3, 5e9), slow={20: 1.25}, jitter=0.02)),
    "384 ranks scatter by 4%, one link has 20 of 25 GB/s, K = 3": (
        _large(3), _cluster(384, 15e-6, 25e9, slow_link=(100, 20e9), jitter=0.04)),
}  # fmt: skip
_SECRET = [*_SITUATIONS][-1]


def _draw(_: int) -> list[Case]:
    return [
        Case.alone(title, (tuple(work), tuple(cluster)), simulated(work, cluster), title == _SECRET)
        for title, (work, cluster) in _SITUATIONS.items()
    ]


def simulated(work: Work, cluster: Cluster) -> float:
    """Seconds of the step, rank by rank."""
    usual, slowest = max(cluster.bandwidths), min(cluster.bandwidths)
    step = simulator.simulate_cluster(
        _layers(work), cluster.ranks, simulator.Link(cluster.latency, usual),
        slow_link=simulator.Link(cluster.latency, slowest), slow_sender=cluster.bandwidths.index(slowest),
        slow_ranks=dict(enumerate(cluster.factors)), micro_batches=work.micro_batches,
        optimizer_seconds=work.optimizer_seconds,
        assignment=[[place] for place in reversed(range(len(work.ready)))],
    )  # fmt: skip
    return step.seconds


def _layers(work: Work) -> list[simulator.Layer]:
    """One for each bucket, in the order of the forward pass, and one for what comes before the first bucket.

    The forward pass is put there as a whole; what comes after the last bucket is a layer of its own, too.
    """
    first = work.ready[0] / 2
    backward = [end - start for start, end in pairwise([first, *work.ready])]
    layers = [simulator.Layer("", (size,), 0.0, seconds)
              for size, seconds in zip(work.bucket_bytes, backward, strict=True)]  # fmt: skip
    before = simulator.Layer("", (), first, 0.0)
    after = simulator.Layer("", (), 0.0, work.pass_seconds - work.ready[-1])
    return [after, *reversed(layers), before]


# --- What mistakes look like ---


@dataclass(frozen=True)
class Step:
    """How the seconds are found by a formula; what is not given is right.

    ``pace`` and those of parts of the step (``pace_before``: of the passes before the last one;
    ``pace_of_passes``: of the end of all) take the ranks' factors.  ``total`` puts together the seconds of
    the K passes, those that are exposed, and the optimizer's; K comes last.
    """

    messages: Callable[[int], float] = lambda n: 2 * (n - 1)
    tensors: Callable[[int], float] = lambda n: 2 * (n - 1) / n
    link: Callable[[Sequence[float]], float] = min
    pace: Callable[[Sequence[float]], float] = max
    pace_of_ready: Callable[[Sequence[float]], float] | None = None
    pace_before: Callable[[Sequence[float]], float] | None = None
    pace_of_passes: Callable[[Sequence[float]], float] | None = None
    pace_of_optimizer: Callable[[Sequence[float]], float] | None = None
    begins: Callable[[float, int], float] = lambda a_pass, k: (k - 1) * a_pass
    start: queueing.Start = queueing.when_both
    exposed: queueing.Exposed = queueing.exposed
    total: Callable[[float, float, float, int], float] = lambda passes, exposed, optimizer, k: (
        passes + exposed + optimizer
    )

    def __call__(self, work: tuple, cluster: tuple) -> float:
        work, cluster = Work(*work), Cluster(*cluster)
        pace = self.pace(cluster.factors)
        ready_pace = (self.pace_of_ready or self.pace)(cluster.factors)
        optimizer = (self.pace_of_optimizer or self.pace)(cluster.factors) * work.optimizer_seconds
        seconds = [self._ring(size, cluster) for size in work.bucket_bytes]
        before = (self.pace_before or self.pace)(cluster.factors) * work.pass_seconds
        begin = self.begins(before, work.micro_batches)
        times = queueing.queued([begin + ready_pace * each for each in work.ready], seconds, self.start)
        passes = (work.micro_batches - 1) * before + pace * work.pass_seconds
        if self.pace_of_passes:
            passes = work.micro_batches * self.pace_of_passes(cluster.factors) * work.pass_seconds
        exposed = self.exposed(times, seconds, passes)
        return self.total(passes, exposed, optimizer, work.micro_batches)

    def _ring(self, size: int, cluster: Cluster) -> float:
        n, bandwidth = cluster.ranks, self.link(cluster.bandwidths)
        return self.messages(n) * cluster.latency + self.tensors(n) * size / bandwidth


@dataclass(frozen=True)
class _AsIf(mistakes.AsIf):
    """Where results may be off by the check's tolerance, so may those of a wrong formula."""

    def __call__(self, wrong: Compared) -> str | None:
        made = self.formula(*wrong.case.arguments[0])
        is_made = near(wrong.played[0].value, made, 1e-9)
        return self.sentence if is_made and self._is_wrong(made, wrong) else None

    def would_be_wrong_in(self, right: Compared) -> bool:
        """Whether a right case is one that the formula would have got wrong."""
        return self._is_wrong(self.formula(*right.case.arguments[0]), right)

    @staticmethod
    def _is_wrong(made: float, compared: Compared) -> bool:
        return not near(made, compared.case.expected[0], TOLERANCE)


def _as_if(sentence: str, *formulas: Callable[[tuple, tuple], float]) -> list[_AsIf]:
    return [_AsIf(formula, sentence) for formula in formulas]


def _usual(factors: Sequence[float]) -> float:
    return 1.0


def _harmonic(bandwidths: Sequence[float]) -> float:
    return len(bandwidths) / sum(1 / each for each in bandwidths)


def _slow_communication(work: tuple, cluster: tuple) -> float:
    """The slowest rank's factor on all of the step."""
    return Step(pace=_usual)(work, cluster) * max(Cluster(*cluster).factors)


def _latency_once(work: tuple, cluster: tuple) -> float:
    """Not for each bucket."""
    ranks, latency, *_ = cluster
    return Step(messages=lambda n: 0)(work, cluster) + 2 * (ranks - 1) * latency


_COMPUTING = Step(exposed=lambda times, seconds, end: 0.0)
_ONE_BY_ONE = Step(exposed=queueing.all_communication)


def _out_of_bounds(wrong: Compared) -> str | None:
    """What no known mistake explains, and can't be, whatever the buckets do."""
    seconds, arguments = wrong.played[0].value, wrong.case.arguments[0]
    if seconds < _COMPUTING(*arguments) * (1 - TOLERANCE):
        return "This is less than computing alone: K passes and an optimizer's step, on the slowest rank."
    if seconds > _ONE_BY_ONE(*arguments) * (1 + TOLERANCE):
        return (
            "This is more than all parts take one after another: K passes, each bucket's ring, and an "
            "optimizer's step. What is counted twice, or comes on top?"
        )
    return None


STEP_SECONDS = Part(
    f"step_seconds(work, cluster), to {TOLERANCE:.0%}",
    _draw,
    (
        mistakes.nothing_returned,
        mistakes.not_a_number,
        *_as_if(
            "The links are averaged. Each chunk passes each link of the ring, one after another, so the "
            "slowest link sets the pace of all.",
            Step(link=mean),
            Step(link=_harmonic),
        ),
        *_as_if(
            "The slow link is left out: each chunk passes it, too, and all ranks wait for that.",
            Step(link=max),
        ),
        *_as_if(
            "The ranks' factors are averaged. An all-reduce needs the gradients of all: the slowest rank "
            "sets the pace.",
            Step(pace=mean),
            Step(pace=median),
        ),
        *_as_if(
            "The ranks' factors are left out: a step takes as long as on the slowest rank.",
            Step(pace=_usual),
            Step(pace=min),
        ),
        *_as_if(
            "The slowest rank's gradients are ready later, too: its factor belongs to `ready` as well.",
            Step(pace_of_ready=_usual),
            Step(pace_of_ready=mean),
        ),
        *_as_if(
            "The slowest rank's backward pass ends later, too, where it goes on after the last bucket.",
            Step(pace_of_passes=_usual),
        ),
        *_as_if(
            "The slowest rank takes longer in each of the K passes: its factor belongs to those before the "
            "last one, too.",
            Step(pace_before=_usual),
            Step(pace_before=mean),
        ),
        *_as_if(
            "The slowest rank's optimizer takes longer, too.",
            Step(pace_of_optimizer=_usual),
            Step(pace_of_optimizer=mean),
        ),
        *_as_if(
            "The slowest rank's factor is on the communication, too. It computes more slowly, and its "
            "links are as fast as others.",
            _slow_communication,
        ),
        *_as_if(
            "The latency is left out. Each bucket waits for 2 (N - 1) messages, whatever they carry.",
            Step(messages=lambda n: 0),
        ),
        *_as_if(
            "The latency is counted once for the step: each bucket waits for its own 2 (N - 1) messages.",
            _latency_once,
        ),
        *_as_if(
            "A bucket waits for 2 (N - 1) messages of the ring, one after another, and each takes the "
            "latency.",
            Step(messages=lambda n: 1),
            Step(messages=lambda n: 2),
            Step(messages=lambda n: n - 1),
            Step(messages=lambda n: 2 * n),
            Step(messages=lambda n: n),
        ),
        *_as_if(
            "N stands in the place of N - 1: in both halves of the ring each rank sends N - 1 chunks.",
            Step(messages=lambda n: 2 * n, tensors=lambda n: 2),
        ),
        *_as_if(
            "N messages are counted in the place of 2 (N - 1): each of the ring's two halves has N - 1.",
            Step(messages=lambda n: n, tensors=lambda n: 1),
        ),
        *_as_if(
            "Only one half of the ring is counted: after the reduce-scatter the all-gather takes as long "
            "again.",
            Step(messages=lambda n: n - 1, tensors=lambda n: (n - 1) / n),
            Step(tensors=lambda n: (n - 1) / n),
        ),
        *_as_if(
            "The ring carries 2 (N - 1)/N of a bucket through each link: a message is one chunk, and not "
            "all of it.",
            Step(tensors=lambda n: n - 1),
            Step(tensors=lambda n: 2 * (n - 1)),
        ),
        *_as_if(
            "The bytes go through a link 2 (N - 1)/N times: S for two ranks, nearly 2S for many.",
            Step(tensors=lambda n: 1),
            Step(tensors=lambda n: 2),
            Step(tensors=lambda n: 2 / n),
            Step(tensors=lambda n: 1 / n),
        ),
        *_as_if(
            "The bandwidths are bytes/s already, and bits are counted.",
            Step(tensors=lambda n: 16 * (n - 1) / n),
        ),
        *_as_if(
            "Gradients are sent in each of the K passes here. They add up in `.grad`, and are sent once, "
            "with the last one.",
            Step(total=lambda passes, exposed, optimizer, k: passes + k * exposed + optimizer),
        ),
        *_as_if(
            "All K passes hide communication here. A gradient is complete only in the last one: until "
            "then nothing can leave.",
            Step(begins=lambda a_pass, k: 0.0),
            Step(exposed=queueing.communication_minus_backward),
            Step(total=lambda passes, exposed, optimizer, k: passes + exposed / k + optimizer),
        ),
        *_as_if(
            "The last bucket is called hidden: when it is complete, nothing is left to compute.",
            Step(exposed=queueing.with_the_last_hidden),
        ),
        *_as_if(
            "Less than nothing is exposed. The step goes on until its passes are over, also where the last "
            "bucket has come before.",
            Step(exposed=queueing.less_than_nothing),
        ),
        *_as_if(
            "Only the last bucket's own seconds are counted as exposed. There is one network, and it may "
            "still be busy with the buckets before.",
            Step(start=queueing.when_ready),
            Step(exposed=queueing.the_last_alone),
        ),
        *_as_if(
            "Nothing is hidden here: a bucket starts when it is complete and the one before has ended, "
            "and computing goes on meanwhile.",
            Step(exposed=queueing.all_communication),
        ),
        *_as_if(
            "The buckets come one pass too late: `ready` counts from where the last pass begins, when K - 1 "
            "passes are over.",
            Step(begins=lambda a_pass, k: k * a_pass),
        ),
        *_as_if(
            "A bucket starts here as soon as the network is free, whether or not its gradients are there.",
            Step(start=queueing.as_soon_as_free),
        ),
        *_as_if(
            "A step has K forward and backward passes, and one is counted.",
            Step(total=lambda passes, exposed, optimizer, k: passes / k + exposed + optimizer),
        ),
        *_as_if(
            "The optimizer is left out: it steps when the last bucket has come.",
            Step(total=lambda passes, exposed, optimizer, k: passes + exposed),
        ),
        *_as_if(
            "The optimizer steps once, and not in each of the K passes.",
            Step(total=lambda passes, exposed, optimizer, k: passes + exposed + k * optimizer),
        ),
        *_as_if(
            "This is what is exposed: the step has its passes before that, and the optimizer after it.",
            Step(total=lambda passes, exposed, optimizer, k: exposed),
            Step(total=lambda passes, exposed, optimizer, k: exposed + optimizer),
        ),
        *_as_if(
            "This is computing alone: what is exposed comes between the passes and the optimizer.",
            Step(total=lambda passes, exposed, optimizer, k: passes + optimizer),
            Step(total=lambda passes, exposed, optimizer, k: passes),
        ),
        *_as_if(
            "These are milliseconds: seconds are asked for.",
            Step(total=lambda passes, exposed, optimizer, k: 1000 * (passes + exposed + optimizer)),
        ),
        _out_of_bounds,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
