"""The batch of each step, and which part of it a micro-batch of a rank is.

The batch of step s is drawn from the seed and s alone.  So it is the same however it is divided, and where in
the data a run stands is said by the number of its step: a checkpoint needs no more.
"""

from __future__ import annotations

import numpy as np
import torch

from course_lib import corpus

MicroBatch = tuple[torch.Tensor, torch.Tensor]


def generator(seed: int, *key: int) -> torch.Generator:
    """Random numbers of their own for each seed and key, such as a step."""
    # Of torch's own 64 bits of seed, a CPU's generator takes only the lower 32.
    mixed = np.random.SeedSequence(seed, spawn_key=key).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0]))


def micro_batches(
    tokens: torch.Tensor, step: int, *, seed: int, batch: int, sequence: int, rank: int, ranks: int,
    count: int,
) -> list[MicroBatch]:  # fmt: skip
    """A rank's ``count`` micro-batches of a step: inputs and targets, each (sequences, sequence), int64.

    The batch is cut into a contiguous slice for each rank, and that into micro-batches; where it does not
    come out even, the first ones are longer by one.
    """
    starts = corpus.starts(tokens, batch, sequence, generator(seed, step))
    own = starts.tensor_split(ranks)[rank].tensor_split(count)
    return [corpus.pieces(tokens, each, sequence) for each in own]
