"""Buckets that overlap the backward pass, against torch's DistributedDataParallel, in turns.

    python benchmarks/overlap.py

Seconds of a training step of a small GPT, and ratios to DDP's step in the same round, medians of steps in
which all ways take turns, on loopback and on links of 400 Mbit/s; and how much of the communication is hidden
where it is shorter than the backward pass.  Buckets are the same for all.  Steps go on until each ratio is on
one side of its bar by its standard error or more, or are over.  !! marks what misses its bar; then, or where
that can't be told, the exit status is 1.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import certainty
import torch
import torch.distributed as dist

from course_lib import all_reduce_timing, corpus, links, measurements, overlap, ranks
from course_lib.links import Links
from course_lib.overlap_timing import DDP, IMPLEMENTATIONS
from course_lib.transformer import GPT, TransformerConfig

CONFIG = TransformerConfig(layers=6, hidden=288, heads=4, vocab=corpus.VOCAB, context=64)  # 23 MiB
SLOW = Links("400mbit", kind="real")
STEPS, MOST_RUNS, MOST, HIDDEN = 9, 4, 1.05, 0.9
DDP_RING = "DDP, ring as hook"
SAME, RING, WAITING = "ours, same all-reduce", "ours, ring", "ours, no overlap"
ALONE, EXPOSED = "no communication", "waiting in finish()"


def _ddp_with_ring(module: torch.nn.Module, bucket_mb: float) -> torch.nn.Module:
    model = IMPLEMENTATIONS[DDP].wrap(module, bucket_mb)
    model.register_comm_hook(None, overlap.comm_hook())
    return model


def _ours(**settings) -> Callable[[torch.nn.Module, float], torch.nn.Module]:
    return lambda module, bucket_mb: overlap.BucketedDataParallel(module, bucket_mb, bucket_mb, **settings)


WAYS = {
    DDP: IMPLEMENTATIONS[DDP].wrap,
    SAME: _ours(all_reduce=dist.all_reduce),
    RING: _ours(),
    DDP_RING: _ddp_with_ring,
    WAITING: _ours(overlap=False),
    ALONE: lambda module, bucket_mb: module,
}


def take_turns(batch: int, bucket_mb: float) -> tuple[dict[str, list[float]], list[int]]:
    """Inside a rank: seconds of each step by way, and the bytes of each bucket."""
    torch.set_num_threads(1)  # several would wait for each other wherever the cores are shared
    module = GPT(CONFIG, attention="fused").to(ranks.device())
    models = {name: wrap(copy.deepcopy(module), bucket_mb) for name, wrap in WAYS.items()}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=1e-4) for name, model in models.items()}
    generator = torch.Generator().manual_seed(dist.get_rank())
    seconds = {name: [] for name in (*models, EXPOSED)}
    for step in range(STEPS + 2):
        inputs, targets = corpus.batch(corpus.tokens(), batch, CONFIG.context, generator)
        first = step % len(models)  # who comes after whom changes, too
        for name in [*models, *models][first : first + len(models)]:
            model = models[name]
            dist.barrier()
            began = time.perf_counter()
            logits = model(inputs)
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
            computed = time.perf_counter()
            if hasattr(model, "finish"):
                model.finish()
            finished = time.perf_counter()
            optimizers[name].step()
            optimizers[name].zero_grad()
            if step > 1:  # DDP fills its buckets anew after the first step
                seconds[name].append(time.perf_counter() - began)
                seconds[EXPOSED] += [finished - computed] if name == RING else []
    sizes = {name: parameter.nbytes for name, parameter in module.named_parameters()}
    return seconds, [
        sum(sizes[name.removeprefix("parameter ")] for name in bucket) for bucket in models[RING].buckets
    ]


class Steps(NamedTuple):
    """Of the slowest rank, seconds of each step by way; of each step, what ranks wait in ``finish()``."""

    seconds: dict[str, list[float]]
    waiting: list[tuple[float, ...]]
    bucket_bytes: list[int]

    def ratios(self, name: str) -> list[float]:
        """Each step to DDP's of the same round."""
        return [each / ddp for each, ddp in zip(self.seconds[name], self.seconds[DDP], strict=True)]

    def with_more(self, more: Steps) -> Steps:
        seconds = {name: [*times, *more.seconds[name]] for name, times in self.seconds.items()}
        return Steps(seconds, [*self.waiting, *more.waiting], self.bucket_bytes)


def has_bar(name: str, on: Links | None) -> bool:
    return name == SAME or (name == RING and on is not None)


def measure(count: int, on: Links | None, batch: int, bucket_mb: float = 4.0) -> Steps:
    of_ranks = ranks.run(take_turns, count, batch, bucket_mb, links=on, timeout=300)
    seconds = {name: all_reduce_timing.slowest(found[name] for found, _ in of_ranks) for name in WAYS}
    waiting = list(zip(*(found[EXPOSED] for found, _ in of_ranks), strict=True))
    return Steps(seconds, waiting, of_ranks[0][1])


def judged(steps: Steps, name: str) -> str:
    return certainty.judged(steps.ratios(name), 0, MOST)


def measure_until_told(count: int, on: Links | None, batch: int, bucket_mb: float) -> Steps:
    """Whatever the ratios are, until each that has a bar is on one side of it, or for MOST_RUNS."""
    steps = measure(count, on, batch, bucket_mb)
    for _ in range(MOST_RUNS - 1):
        if all(judged(steps, name) != certainty.OPEN for name in WAYS if has_bar(name, on)):
            break
        steps = steps.with_more(measure(count, on, batch, bucket_mb))
    return steps


def compare(count: int, on: Links | None, batch: int, bucket_mb: float = 4.0) -> bool:
    steps = measure_until_told(count, on, batch, bucket_mb)
    where = on.label if on else "loopback"
    print(f"\n{count} ranks, {where}, {batch} sequences of {CONFIG.context} tokens for each, buckets of "
          f"{bucket_mb:g} MiB")  # fmt: skip
    good = True
    for name in WAYS:
        ratios, verdict = steps.ratios(name), judged(steps, name) if has_bar(name, on) else ""
        good &= verdict in ("", certainty.OK)
        compared = f"{statistics.median(ratios):.3f} ± {certainty.uncertainty(ratios):.3f} of DDP's {verdict}"
        print(f"  {name:22} {statistics.median(steps.seconds[name]):.4f} s  {compared}", flush=True)
    return good & (on is None or hides(count, on, steps))


class Hidden(NamedTuple):
    """``share``: of all buckets' seconds but the last one's.  ``fits``: into half of the compute."""

    share: float
    fits: bool
    text: str


def hidden(count: int, on: Links, steps: Steps) -> Hidden:
    """What the ring's buckets cost by themselves, and how much of all but the last one does not show.

    Exposed is what the last rank to end its backward pass waits.  The others wait for that rank, too, whose
    buckets are not full yet: this is a load that is not balanced, and no faster link would shorten it.
    """
    exposed = statistics.median(map(min, steps.waiting))
    longest = statistics.median(map(max, steps.waiting))
    each = [
        statistics.median(all_reduce_timing.measure(["ring"], size, count, on)["ring"])
        for size in steps.bucket_bytes
    ]
    return Hidden(
        1 - max(0, exposed - each[-1]) / sum(each[:-1]),
        sum(each) < statistics.median(steps.seconds[ALONE]) / 2,
        f"  {len(each)} buckets take {sum(each):.3f} s by themselves, the last one {each[-1]:.3f} s; "
        f"finish() waits {exposed:.3f} s on the last rank to compute, and {longest:.3f} s on the first.",
    )


def hides(count: int, on: Links, steps: Steps) -> bool:
    found = hidden(count, on, steps)
    good = not found.fits or found.share >= HIDDEN
    mark = ("ok" if good else "!!") if found.fits else "(no bar: longer than the backward pass)"
    print(f"{found.text}\n  Hidden of all but the last: {found.share:.0%} {mark}", flush=True)
    return good


def main() -> int:
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    if not links.available().real:
        print(f"Real links are needed. {links.available()}")
        return 1
    rows = [(2, None, 8), (4, None, 8), (2, SLOW, 8), (4, SLOW, 8), (2, SLOW, 24), (2, SLOW, 40, 1.0)]
    good = all([compare(*row) for row in rows])
    print("\nall bars hold" if good else "\nMISSED a bar")
    return 0 if good else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
