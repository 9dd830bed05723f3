"""Model state: the bytes that weights, gradients and optimizer take on each rank, before any activation.

    state = model_state(7_000_000_000)            # 16 bytes per parameter, 112 GB
    state.weights, state.gradients, state.master, state.optimizer
    model_state(7_500_000_000, zero_stage=1, ranks=64)
    largest_model(80 * 10**9)                     # the other way round
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.arguments import Catalog, exact_int, whole_number


@dataclass(frozen=True)
class Recipe:
    """A way to train, by the bytes that it keeps for each parameter.

    ``source``: who counts so.  "optimizer:" stands before who counts no more than that; EleutherAI counts the
    master weights with it.
    ``gradient_copy`` is the part of ``gradients`` that is an fp32 copy for the optimizer step, so that it is
    sharded with the optimizer state.
    """

    weights: int
    gradients: int
    master: int
    optimizer: int
    description: str
    source: str
    gradient_copy: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.master + self.optimizer


RECIPES = Catalog("recipe", {
    "mixed-adam": Recipe(
        2, 2, 4, 8, "16-bit weights and gradients, fp32 master weights, Adam", "ZeRO, arXiv 1910.02054"),
    "fp32-adam": Recipe(4, 4, 0, 8, "everything in fp32, Adam", "Megatron-LM, dist_optimizer.md"),
    "autocast-adam": Recipe(
        4, 4, 0, 8, "PyTorch autocast: fp32 weights, Adam; 16-bit copies from forward to backward",
        "counted here"),
    "mixed-adam-fp32-grads": Recipe(
        2, 4, 4, 8, "16-bit weights, fp32 gradients and master weights, Adam",
        "Megatron-LM, dist_optimizer.md"),
    "mixed-adam-fp32-grad-copy": Recipe(
        2, 6, 4, 8, "mixed-adam with an fp32 copy of all gradients at the step",
        "Megatron-LM, dist_optimizer.md", gradient_copy=4),
    "mixed-8bit-adam": Recipe(
        2, 2, 4, 2, "mixed-adam with Adam's two moments in 8 bits each",
        "optimizer: EleutherAI/cookbook; total counted here"),
    "mixed-sgd-momentum": Recipe(
        2, 2, 4, 4, "16-bit weights and gradients, fp32 master weights and momentum",
        "optimizer: EleutherAI/cookbook; total counted here"),
    "bf16-adam": Recipe(
        2, 2, 0, 4, "everything in bf16, also Adam's moments",
        "optimizer: ml-engineering; total counted here"),
})


@dataclass(frozen=True)
class ModelState:
    """Exact bytes on each rank: weights, gradients, fp32 master weights, optimizer state; their total."""

    weights: int
    gradients: int
    master: int
    optimizer: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.master + self.optimizer


def model_state(
    parameters: int, recipe: str = "mixed-adam", zero_stage: int = 0, ranks: int = 1
) -> ModelState:
    """The model state in bytes on each of ``ranks`` data-parallel ranks.

    ``zero_stage``: 0 is plain data parallelism, where each rank holds everything.  1 shards the optimizer
    state and the master weights over the ranks, 2 the gradients too, 3 the weights too (ZeRO, arXiv
    1910.02054, section 5).  A shard has whole parameters: where ``ranks`` does not divide them, this is the
    rank with one more.  Not counted: buffers, and Adam's step counts, 4 bytes per parameter *tensor*.

    Raises ValueError for a number of parameters that is not whole or is negative, or an unknown recipe or
    stage.
    """
    parameters = whole_number("parameters", parameters, least=0)
    replicated, sharded = _bytes_per_parameter(recipe, zero_stage)
    shard = -(-parameters // whole_number("ranks", ranks))  # rounded up, exactly
    return ModelState(*(
        whole * parameters + part * shard for whole, part in zip(replicated, sharded, strict=True)))


def largest_model(
    memory_bytes: int, recipe: str = "mixed-adam", zero_stage: int = 0, ranks: int = 1
) -> int:
    """The most parameters whose ``model_state(...).total`` fits into ``memory_bytes`` on each rank.

    Exact: one parameter more does not fit.  Nothing is left for activations then.  Raises ValueError as
    model_state does.
    """
    memory_bytes = whole_number("memory_bytes", memory_bytes, least=0)
    ranks = whole_number("ranks", ranks)
    whole, part = (sum(pieces) for pieces in _bytes_per_parameter(recipe, zero_stage))
    full_rows, left = divmod(memory_bytes, whole * ranks + part)  # a row: one parameter in each rank's shard
    started_row = max(left - part, 0) // whole if whole else 0
    return full_rows * ranks + started_row


def _bytes_per_parameter(recipe: str, zero_stage: int) -> tuple[list[int], list[int]]:
    """By piece, in the order of ModelState: bytes that every rank holds, and bytes that are sharded."""
    kept = RECIPES[recipe]
    stage = _stage(zero_stage)
    pieces = [kept.weights, kept.gradients, kept.master, kept.optimizer]
    sharded = [
        kept.weights if stage >= 3 else 0,
        kept.gradients if stage >= 2 else kept.gradient_copy if stage == 1 else 0,
        kept.master if stage >= 1 else 0,
        kept.optimizer if stage >= 1 else 0,
    ]
    return [piece - part for piece, part in zip(pieces, sharded, strict=True)], sharded


def _stage(zero_stage: object) -> int:
    stage = exact_int(zero_stage)
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"zero_stage={zero_stage!r}: expected 0, 1, 2 or 3")
    return stage
