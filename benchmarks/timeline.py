"""What recording a training step costs: steps with and without a recorder, in turns.

    python benchmarks/timeline.py

Medians and their ratio, from one run.  The exit status is 1 if a recorded step takes over 2% longer.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

import torch
import torch.distributed as dist

from course_lib import corpus, measurements, ranks, timeline
from course_lib.all_reduce import ring
from course_lib.overlap import BucketedDataParallel
from course_lib.transformer import GPT, TransformerConfig

CONFIG = TransformerConfig(layers=12, hidden=128, heads=4, vocab=corpus.VOCAB, context=128)
BATCH, STEPS = 4, 25
MOST = 1.02


def take_turns() -> tuple[dict[str, list[float]], int]:
    """Inside a rank: seconds of each step, and how many spans a recorded one has."""
    torch.set_num_threads(1)  # several would wait for each other wherever the cores are shared
    record = timeline.Recorder()
    module = GPT(CONFIG, attention="fused").to(ranks.device())
    model = BucketedDataParallel(module, 1.0, 0.5, all_reduce=record.all_reduce(ring))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    inputs, targets = (part.to(ranks.device()) for part in corpus.batch(
        corpus.tokens(), BATCH, CONFIG.context, torch.Generator().manual_seed(dist.get_rank())))  # fmt: skip

    def no_record(*_: object) -> AbstractContextManager:
        return nullcontext()

    seconds = {"without": [], "with": []}
    for step in range(STEPS + 1):
        turns = [("without", no_record), ("with", record)]
        for name, block in turns if step % 2 else reversed(turns):
            dist.barrier()
            began = time.perf_counter()
            with record.step(module) if name == "with" else nullcontext():
                logits = model(inputs)
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
                with block("idle", "wait"):
                    model.finish()
                with block("optimizer state", "optimizer"):
                    optimizer.step()
                    optimizer.zero_grad()
            next(module.parameters()).detach().sum().item()  # a GPU's work may still be under way
            if step:  # what only a first step does is left out
                seconds[name].append(time.perf_counter() - began)
    return seconds, len(record.spans) // (STEPS + 1)


def main() -> int:
    print(f"{measurements.machine()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    good = True
    for count in (1, 2):
        of_ranks = ranks.run(take_turns, count, timeout=300)
        medians = {
            name: statistics.median(map(max, zip(*(each[name] for each, _ in of_ranks), strict=True)))
            for name in ("without", "with")
        }
        ratio = medians["with"] / medians["without"]
        good &= ratio <= MOST
        print(
            f"{count} ranks: a step takes {medians['without']:.3f} s, with its {of_ranks[0][1]} spans "
            f"recorded {ratio:.3f} times as long: {'ok' if ratio <= MOST else 'MISSED'}",
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
