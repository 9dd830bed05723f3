"""Part 3: the seconds of a training step with buckets of a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.checks import given, mistakes
from course_lib.checks.exercise_07 import queueing
from course_lib.checks.exercise_07.queueing import Times
from course_lib.checks.given import Model, Network, as_it_is
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Part
from course_lib.checks.tolerance import rounded

ARGUMENTS = (given.model, given.network, as_it_is, as_it_is)
ROUNDING = 1e-9  # floats may be added in any order
_FORWARD = 1 / 3  # of a pass


def gpt(layers: int, hidden: int, vocab: int, pass_seconds: float, element_bytes: int = 4) -> Model:
    """A GPT without biases, whose head is tied to its embedding: that gradient is the last one.

    Of all models, the backward pass takes time for each weight in proportion to its size.
    """
    square = hidden * hidden
    layer = [hidden, 3 * square, square, hidden, 4 * square, 4 * square]
    return _model([vocab * hidden, *layers * layer, hidden], pass_seconds, element_bytes)


def gated(layers: int, hidden: int, vocab: int, key_values: int, mlp: int, pass_seconds: float) -> Model:
    """As Llama is built, but with norms that have no weights; in bf16.  All sizes are round in binary.

    So there are buckets that are full to the byte, and others that lack a per cent or two, which MB for MiB,
    or "more than" for "at least", fill differently.
    """
    attention = [hidden * hidden, hidden * key_values, hidden * key_values, hidden * hidden]
    return _model([vocab * hidden, *layers * [*attention, *3 * [mlp * hidden]]], pass_seconds, 2)


def _model(elements: Sequence[int], pass_seconds: float, element_bytes: int) -> Model:
    clock, ready = elements[0], []  # the head comes first, and its weight's gradient is not complete then
    for count in reversed(elements[1:]):
        clock += count
        ready.append(clock)
    ready.append(clock)
    begin, rate = _FORWARD * pass_seconds, (1 - _FORWARD) * pass_seconds / clock
    times = [round(begin + rate * each, 9) for each in reversed(ready)]
    return Model(tuple(element_bytes * count for count in elements), tuple(times), pass_seconds)


SMALL, BYTES, WORDS, WIDE, LARGE, GATED, SECRETLY_GATED = (
    "4 layers of 512, 256 tokens",
    "12 layers of 768, 256 tokens",
    "12 layers of 768, 50,304 tokens",
    "24 layers of 1024 in bf16",
    "32 layers of 4096 in bf16",
    "16 gated layers of 1024 in bf16",
    "16 gated layers of 1024 in bf16, 256 for keys",
)
MODELS = {
    SMALL: gpt(4, 512, 256, 0.3),
    BYTES: gpt(12, 768, 256, 0.24),
    WORDS: gpt(12, 768, 50_304, 0.24),
    WIDE: gpt(24, 1024, 32_768, 0.6, element_bytes=2),
    LARGE: gpt(32, 4096, 32_000, 1.5, element_bytes=2),
    GATED: gated(16, 1024, 32_768, key_values=128, mlp=3456, pass_seconds=0.4),
    SECRETLY_GATED: gated(16, 1024, 32_768, key_values=256, mlp=3328, pass_seconds=0.4),
}
_SECRET = (SECRETLY_GATED, Network(96, 150, 25), 25, 2)
# model, network, MiB of a bucket, K
_SITUATIONS = (
    (SMALL, Network(4, 50, 5), 25, 1),
    (SMALL, Network(2, 50, 2.5), 5, 1),
    (WORDS, Network(8, 20, 25), 25, 1),
    (BYTES, Network(8, 20, 25), 25, 4),
    (BYTES, Network(64, 20, 50), 1, 1),
    (SMALL, Network(3, 300, 1), 5, 3),
    (BYTES, Network(16, 30, 10), 1000, 1),
    (GATED, Network(12, 200, 25), 25, 2),
    _SECRET,
)


def _draw(_: int) -> list[Case]:
    return [_case(*situation, situation == _SECRET) for situation in _SITUATIONS]


def _case(model: str, network: Network, bucket_mb: float, micro_batches: int, secret: bool) -> Case:
    title = f"{model}, {in_words(network)}, {bucket_mb:,g} MiB, K = {micro_batches}"
    arguments = (tuple(MODELS[model]), tuple(network), bucket_mb, micro_batches)
    return Case.alone(title, arguments, Step()(*arguments), secret)


def in_words(network: Network) -> str:
    return f"{network.ranks:,} ranks, {network.microseconds} µs, {network.gigabits} Gbit/s"


# --- Right, and what mistakes look like ---

_OfRanks = Callable[[int], float]


def filled(sizes: Sequence[int], bucket_bytes: float) -> list[list[int]]:
    """Buckets of indices, the last one first, each closed once it has reached its size."""
    return _filled(sizes, lambda held, _: held >= bucket_bytes)


def _never_above(sizes: Sequence[int], bucket_bytes: float) -> list[list[int]]:
    """Each closed before it grows larger than its size."""
    return _filled(sizes, lambda held, size: held > 0 and held + size > bucket_bytes)


def _only_above(sizes: Sequence[int], bucket_bytes: float) -> list[list[int]]:
    """Each closed when it is larger than its size."""
    return _filled(sizes, lambda held, _: held > bucket_bytes)


def _filled(sizes: Sequence[int], is_full: Callable[[int, int], bool]) -> list[list[int]]:
    """``is_full`` is asked what a bucket holds, and what comes next."""
    buckets: list[list[int]] = [[]]
    held = 0
    for index in reversed(range(len(sizes))):
        if is_full(held, sizes[index]):
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets


def _forward_order(sizes: Sequence[int], bucket_bytes: float) -> list[list[int]]:
    last = len(sizes) - 1
    return [[last - i for i in bucket] for bucket in filled(sizes[::-1], bucket_bytes)]


def _last_pass(pass_seconds: float, micro_batches: int) -> float:
    return (micro_batches - 1) * pass_seconds


def _first_pass(pass_seconds: float, micro_batches: int) -> float:
    return 0.0


@dataclass(frozen=True)
class Step:
    """How the seconds are found; what is not given is right."""

    messages: _OfRanks = lambda n: 2 * (n - 1)
    tensors: _OfRanks = lambda n: 2 * (n - 1) / n
    second: float = 1e-6  # µs in a second
    byte: float = 1e9 / 8  # Gbit/s in bytes/s
    mebibyte: float = 2**20
    fill: Callable[[Sequence[int], float], list[list[int]]] = filled
    complete: Callable[[list[float]], float] = max
    start: queueing.Start = queueing.when_both
    begins: Callable[[float, int], float] = _last_pass  # of the pass whose gradients are sent
    exposed: queueing.Exposed = queueing.exposed
    seconds: Callable[[float, int, float], float] = lambda a_pass, k, exposed: k * a_pass + exposed

    def __call__(self, model: tuple, network: tuple, bucket_mb: float, micro_batches: int) -> float:
        sizes, ready, pass_seconds = model
        buckets = self.fill(sizes, bucket_mb * self.mebibyte)
        durations = [self._reduced(sum(sizes[i] for i in bucket), *network) for bucket in buckets]
        begin = self.begins(pass_seconds, micro_batches)
        complete = [begin + self.complete([ready[i] for i in bucket]) for bucket in buckets]
        times = queueing.queued(complete, durations, self.start)
        exposed = self.exposed(times, durations, micro_batches * pass_seconds)
        return self.seconds(pass_seconds, micro_batches, exposed)

    def _reduced(self, size: int, ranks: int, microseconds: float, gigabits: float) -> float:
        latency, bandwidth = microseconds * self.second, gigabits * self.byte
        return self.messages(ranks) * latency + self.tensors(ranks) * size / bandwidth


def _minus_backward_of_one(times: Times, seconds: Sequence[float], end: float) -> float:
    return max(0.0, sum(seconds) - (max(start for start, _ in times) - times[0][0]))


# Mistakes that change which bucket size is best, too: the sentence, and ways to make it.
OF_A_STEP: dict[str, tuple[Step, ...]] = {
    "The latency is left out. Each bucket pays for its messages whatever they carry, and that is what small "
    "buckets fail by.": (Step(second=0),),
    "A bucket waits for 2 (N - 1) messages of the ring, one after another, and each takes the latency.": (
        Step(messages=lambda n: 1),
        Step(messages=lambda n: 2),
        Step(messages=lambda n: n - 1),
        Step(messages=lambda n: 2 * n),
        Step(messages=lambda n: n),
    ),
    "Only one half of the ring is counted: after the reduce-scatter the all-gather takes as long again.": (
        Step(messages=lambda n: n - 1, tensors=lambda n: (n - 1) / n),
        Step(tensors=lambda n: (n - 1) / n),
    ),
    "The ring carries 2 (N - 1)/N of a bucket through each link, not all of it for each of its messages: a "
    "message is one chunk.": (
        Step(tensors=lambda n: n - 1),
        Step(tensors=lambda n: 2 * (n - 1)),
        Step(messages=lambda n: n - 1, tensors=lambda n: n - 1),
    ),
    "The bytes go through a link 2 (N - 1)/N times: S for two ranks, nearly 2S for many.": (
        Step(tensors=lambda n: 1),
        Step(tensors=lambda n: 2),
        Step(tensors=lambda n: 2 / n),
        Step(tensors=lambda n: 1 / n),
    ),
    "Gbit/s are taken for GB/s: links are sold in bits, and a byte has 8 of them.": (Step(byte=1e9),),
    "Gbit/s are powers of ten: 1 Gbit/s = 10^9 bit/s.": (Step(byte=2**30 / 8),),
    "The latency is given in µs, and milliseconds are taken.": (Step(second=1e-3),),
    "The latency is given in µs, and seconds are taken.": (Step(second=1),),
    "1 MiB is taken for 1,000 KiB: it has 1,024 of them, 1,048,576 bytes.": (Step(mebibyte=1000 * 1024),),
    "MiB are taken for MB: a bucket of 25 MiB is full at 26,214,400 bytes.": (Step(mebibyte=1e6),),
    "A bucket that is full to the byte is left open here, and takes one more. The rule of lesson 06 closes "
    "it once it has *reached* its size.": (Step(fill=_only_above),),
    "A bucket is closed here before it would be larger than its size. The rule of lesson 06 closes it once "
    "it has reached it.": (Step(fill=_never_above),),
    "The buckets are filled from the first parameter on. The backward pass comes to the last one first: this "
    "first bucket is complete last, and all others wait for it.": (Step(fill=_forward_order),),
    "All buckets wait here for the last gradient of all, so that nothing is hidden.": (
        Step(start=queueing.after_all_gradients),
        Step(exposed=queueing.all_communication),
    ),
    "A bucket leaves here with its first gradient: it is complete when the last one of its gradients is.": (
        Step(complete=min),
        Step(complete=lambda ready: ready[0]),
    ),
    "A bucket starts here as soon as the network is free, whether or not its gradients are there.": (
        Step(start=queueing.as_soon_as_free),
    ),
    "All K backward passes hide communication here. A gradient is complete only in the last one: until then "
    "nothing can leave.": (
        Step(begins=_first_pass),
        Step(exposed=queueing.communication_minus_backward),
        Step(seconds=lambda a_pass, k, exposed: k * a_pass + exposed / k),
    ),
    "This is communication minus computing, as if all of the backward pass could hide something: it counts "
    "when the last bucket ends.": (
        Step(exposed=_minus_backward_of_one),
    ),
    "The last bucket is called hidden: when it is complete, nothing is left to compute.": (
        Step(exposed=queueing.with_the_last_hidden),
    ),
    "Only the last bucket's own seconds are counted as exposed, as if the network were free for it. There is "
    "one network, and it may still be busy with the buckets before.": (
        Step(start=queueing.when_ready),
        Step(exposed=queueing.the_last_alone),
    ),
    "The gradients are sent in each of the K passes here. They add up in `.grad`, and are sent once, with "
    "the last one.": (Step(seconds=lambda a_pass, k, exposed: k * (a_pass + exposed)),),
}
_OF_THE_SUM: dict[str, Step] = {
    "The step has K forward and backward passes, and only one is counted.": Step(
        seconds=lambda a_pass, k, exposed: a_pass + exposed
    ),
    "This is what is exposed: the step has its passes before that.": Step(
        seconds=lambda a_pass, k, exposed: exposed
    ),
    "This is the computing alone: the last bucket is exposed at least.": Step(
        seconds=lambda a_pass, k, exposed: k * a_pass
    ),
    "This is in milliseconds: seconds are asked for.": Step(
        seconds=lambda a_pass, k, exposed: 1000 * (k * a_pass + exposed)
    ),
}

STEP_SECONDS = Part(
    "step_seconds(model, network, bucket_mb, micro_batches)",
    _draw,
    (
        mistakes.nothing_returned,
        mistakes.not_a_number,
        *(each for sentence, steps in OF_A_STEP.items() for each in as_if(sentence, *steps)),
        *(each for sentence, step in _OF_THE_SUM.items() for each in as_if(sentence, step)),
        rounded,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
