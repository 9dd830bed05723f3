"""What the gradient noise scale costs: training steps with and without a meter, in turns.

    python benchmarks/noise_meter.py

Steps with a meter and without take turns, and so does which of them is first; what a meter adds is the
median difference within a pair, so that whatever else the machine does meets both.

The meter passes over gradients, so its cost does not grow with a micro-batch, and its share shrinks as the
micro-batch grows: 512 tokens are reported, and from 1,024 tokens on a step with a meter may take at most 2%
longer, or the exit status is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from datetime import UTC, datetime

import torch
import torch.distributed as dist

from course_lib import corpus, data_parallel, measurements, ranks
from course_lib.all_reduce_timing import slowest
from course_lib.noise_scale import Meter
from course_lib.transformer import GPT, TransformerConfig

CONFIG = TransformerConfig(layers=4, hidden=128, heads=4, vocab=corpus.VOCAB, context=128)
REPORTED, HELD = 4, 8  # sequences in a micro-batch
MICRO_BATCHES, STEPS = 4, 60
WITHOUT, WITH = "without", "with"
MOST = 0.02


def loss_function(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def take_turns(batch: int, steps: int = STEPS) -> dict[str, list[float]]:
    """Inside a rank: seconds of each of ``steps``, with ``batch`` sequences in a micro-batch."""
    torch.set_num_threads(1)  # several would wait for each other wherever the cores are shared
    module = GPT(CONFIG, attention="fused").to(ranks.device())
    data_parallel.broadcast_parameters(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(dist.get_rank())
    tokens, meters = corpus.tokens(), {WITHOUT: None, WITH: Meter()}
    seconds = {name: [] for name in meters}
    for step in range(steps + 1):
        batches = [
            tuple(part.to(ranks.device()) for part in corpus.batch(tokens, batch, CONFIG.context, generator))
            for _ in range(MICRO_BATCHES)
        ]
        for name in (WITHOUT, WITH) if step % 2 else (WITH, WITHOUT):
            dist.barrier()
            began = time.perf_counter()
            data_parallel.train_step(module, batches, loss_function, optimizer, noise_meter=meters[name])
            next(module.parameters()).detach().sum().item()  # a GPU's work may still be under way
            if step:  # what only a first step does is left out
                seconds[name].append(time.perf_counter() - began)
    return seconds


def added_share(count: int, batch: int) -> float:
    """Prints what a meter adds to a step on ``count`` ranks, and returns its share of the step."""
    of_ranks = ranks.run(take_turns, count, batch, timeout=300)
    without, with_meter = (slowest(each[name] for each in of_ranks) for name in (WITHOUT, WITH))
    plain = statistics.median(without)
    added = statistics.median(more - less for more, less in zip(with_meter, without, strict=True))
    print(
        f"{count} ranks, {MICRO_BATCHES} micro-batches of {batch * CONFIG.context:,} tokens: a step takes "
        f"{plain:.3f} s, and {added / plain:+.1%} with a meter",
        flush=True,
    )
    return added / plain


def main() -> int:
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    shares = {batch: [added_share(count, batch) for count in (1, 2)] for batch in (REPORTED, HELD)}
    good = max(shares[HELD]) <= MOST
    print("ok" if good else f"MISSED: over {MOST:.0%}")
    return 0 if good else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
