"""What each rank does in a run, inside a process group that is there.

Puts the package's parts together: settings, data, loss, a way to average, steps and checkpoints.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.distributed as dist

from course_lib import corpus, ranks
from course_lib.measured_utilization import peak_flops_of_ranks
from course_lib.train import lines, precision, ways
from course_lib.train.data import MicroBatch, micro_batches
from course_lib.train.errors import Stopped, TrainingError
from course_lib.train.keeping import Keeper, Trained, alone_in
from course_lib.train.loss import Loss, Weights
from course_lib.train.optimizing import adamw
from course_lib.train.ranks_agree import Machine, from_rank_0, machines, require_same_settings
from course_lib.train.records import Outcome
from course_lib.train.settings import Settings
from course_lib.train.steps import Batches, Steps
from course_lib.transformer import GPT


def train(settings: Settings, should_stop: Callable[[], bool] = lambda: False) -> Outcome:
    """Train on all ranks of torch.distributed's default group; each calls it, with the same settings.

    ``should_stop()``: asked after each step; once it says yes on any rank, all end after the same step, with
    a checkpoint.  Rank 0 says lines and writes files.

    Raises TrainingError on all ranks alike for what can't be: settings that differ between ranks, a batch
    that can't be divided, a checkpoint of another run, ranks out of step, a loss that is not finite.
    """
    tokens = corpus.tokens()
    text = hashlib.sha256(tokens.numpy().data).hexdigest()[:16]
    require_same_settings(settings, text=text)
    if settings.sequence >= len(tokens):
        raise TrainingError(f"sequence={settings.sequence}: expected less than the text has, {len(tokens):,}")
    with alone_in(settings.checkpoint, settings.timeout):
        return _train(settings, tokens, text, should_stop)


def _train(
    settings: Settings, tokens: torch.Tensor, text: str, should_stop: Callable[[], bool]
) -> Outcome:  # fmt: skip
    of_ranks = machines()
    dtype = _dtype(settings, of_ranks)
    trained = _start(settings, dtype)
    of_a_run = {**settings.of_a_run(), "dtype": dtype, "text": text}
    keeper = Keeper(settings.checkpoint, of_a_run, trained)
    resumed_from, remarks = keeper.resume()
    remarks += from_rank_0(partial(lines.begin_log, settings.log, resumed_from))
    way = ways.chosen(settings, trained.module)
    say = ranks.log if dist.get_rank() == 0 and not settings.quiet else _nothing
    said = lines.header(settings, dtype, of_ranks, way.whose)
    for line in [*said, *remarks]:
        say(line)
    has_speed = not any(machine.shares_cores for machine in of_ranks)
    peak = peak_flops_of_ranks(dtype=precision.TYPES[dtype]) if has_speed and settings.utilization else None
    keeper.set_random_state(settings.seed, resumed_from)  # after all else that draws random numbers
    journal = lines.Journal(settings, say, peak) if dist.get_rank() == 0 else None
    weights = Weights(settings.tokens, len(of_ranks), settings.micro_batches, way.by_tokens)
    loss = Loss(weights, trained.scaler, list(trained.module.parameters()))
    steps = Steps(settings, trained, loss, keeper, journal, resumed_from, has_speed, should_stop)
    batches = Batches(partial(_micro_batches, settings, tokens), steps, settings.quiet)
    with contextlib.suppress(Stopped), _noting(steps):
        way.train(batches, loss, steps)
    outcome = Outcome(
        steps.records, resumed_from, steps.is_stopped, peak, steps.meter.value(), steps.meter.interval(),
        len(steps.meter), keeper.path,
    )  # fmt: skip
    if journal is not None:
        journal.end(outcome)
    return outcome


def _nothing(line: str) -> None:
    pass


@contextlib.contextmanager
def _noting(steps: Steps) -> Iterator[None]:
    """Exceptions that leave the block know in which step they came."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in step {steps.done + 1}")
        raise


def _dtype(settings: Settings, of_ranks: list[Machine]) -> str:
    try:
        settings.check_division(len(of_ranks))
        all_have_bf16 = all(machine.has_bf16 for machine in of_ranks)
        return precision.chosen(settings.dtype, ranks.device().type, all_have_bf16)
    except ValueError as problem:
        raise TrainingError(str(problem)) from None


def _start(settings: Settings, dtype: str) -> Trained:
    torch.manual_seed(settings.seed)
    module = GPT(settings.config, attention="fused")
    precision.prepare(module, dtype, ranks.device())
    return Trained(module, adamw(module), precision.scaler(dtype, ranks.device()))


def _micro_batches(settings: Settings, tokens: torch.Tensor, step: int) -> list[MicroBatch]:
    of_step = micro_batches(
        tokens, step, seed=settings.seed, batch=settings.batch, sequence=settings.sequence,
        rank=dist.get_rank(), ranks=dist.get_world_size(), count=settings.micro_batches,
    )  # fmt: skip
    device = ranks.device()
    return [(inputs.to(device), targets.to(device)) for inputs, targets in of_step]
