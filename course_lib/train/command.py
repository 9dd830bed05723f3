"""``course train``: the options, and what is said when a run does not come to its end.

``cli`` comes here with the arguments, which become ``settings``.  ``starting`` runs what they say, on
ranks of its own or those of torchrun.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from course_lib.ranks import torchrun
from course_lib.train.settings import ALL_REDUCE, DATA_PARALLEL, DEFAULT_RANKS, DTYPES, Settings

if TYPE_CHECKING:
    from course_lib.ranks import RanksError
    from course_lib.train.records import Outcome

_DEFAULTS = {field.name: field.default for field in fields(Settings)}


def add_arguments(parser: ArgumentParser) -> None:
    """An option that is not given is left to ``Settings``."""
    parser.argument_default = SUPPRESS

    def option(name: str, what: str, *others: str, **more: Any) -> None:
        default = _DEFAULTS[name]
        said = f" ({default})" if default is not None and not isinstance(default, bool) else ""
        parser.add_argument(f"--{name.replace('_', '-')}", *others, help=what + said, **more)

    whole: dict[str, Any] = {"type": int, "metavar": "N"}
    real: dict[str, Any] = {"type": float, "metavar": "X"}
    path: dict[str, Any] = {"type": Path}
    option("ranks", f"how many ranks to start, by default {DEFAULT_RANKS}; torchrun starts its own", **whole)
    option("steps", "steps of the optimizer", **whole)
    option("batch", "sequences in a step, of all ranks together", **whole)
    option("micro_batches", "K, pieces of a rank's part of the batch", **whole)
    option("sequence", "tokens in a sequence", **whole)
    option("layers", "layers of the GPT", **whole)
    option("hidden", "its width", **whole)
    option("heads", "its heads", **whole)
    option("dropout", "share of activations that are dropped", **real)
    option("dtype", "what is multiplied in; auto: float32 on the CPU, bf16 or fp16 on GPUs", choices=DTYPES)
    option("learning_rate", "the highest one", **real)
    option("warmup", "steps until it is reached", **whole)
    option("max_norm", "clip gradients to this norm; none: leave them", type=_real_or_none, metavar="X")
    option("seed", "of weights, data and dropout", **whole)
    option("data_parallel", "the course's buckets, torch's DDP, or each parameter after the backward pass",
           choices=DATA_PARALLEL)  # fmt: skip
    option("all_reduce", "the course's ring, or yours with --mine; or torch's", choices=ALL_REDUCE)
    option("bucket_mb", "MiB in a bucket", **real)
    option("mine", "use what you have written in the exercises in this folder", metavar="FOLDER", **path)
    option("links", "slow links between the ranks, such as 400mbit", metavar="RATE")
    option("checkpoint", "write checkpoints here, and go on from the newest", metavar="FOLDER", **path)
    option("checkpoint_every", "steps between two checkpoints", **whole)
    option("stop_after", "end after so many steps, with a checkpoint", **whole)
    # torchrun takes --log for one of its own options, wherever it stands.
    option("log", "a line of JSON for each step; after torchrun, write --log-file", "--log-file",
           metavar="FILE", **path)  # fmt: skip
    option("print_every", "steps between two lines", **whole)
    option("timeout", "seconds until ranks that do not answer are given up", **real)
    parser.add_argument("--no-utilization", dest="utilization", action="store_false",
                        help="no U: do not measure this machine's peak first")  # fmt: skip
    parser.add_argument("--json", dest="quiet", action="store_true",
                        help="print the result as JSON, and no lines")  # fmt: skip


def _real_or_none(text: str) -> float | None:
    try:
        return None if text == "none" else float(text)
    except ValueError:
        raise ArgumentTypeError(f"expected a number, or none, and not {text!r}") from None


def main(arguments: Namespace) -> int:
    """0 if all steps are done, or the run was stopped as asked; 1 if it failed; 2 for wrong usage."""
    try:
        settings = Settings(**{name: value for name, value in vars(arguments).items() if name in _DEFAULTS})
    except ValueError as problem:
        torchrun.say_error(f"course train: {problem}")
        return 2
    return _on_torchruns_ranks(settings) if torchrun.is_here() else _on_ranks_of_its_own(settings)


def _on_ranks_of_its_own(settings: Settings) -> int:
    from course_lib.ranks import RanksError
    from course_lib.train.errors import TrainingError

    try:
        outcome = _outcome(settings)
    except RanksError as error:
        known = getattr(error, "exception", None)
        said = str(known) if isinstance(known, TrainingError) else _of_ranks(error, settings)
        torchrun.say_error(f"course train: {said}")
        return 1
    except ValueError as problem:
        torchrun.say_error(f"course train: {problem}")
        return 2
    _print_json(settings, outcome)
    return 0


def _of_ranks(error: RanksError, settings: Settings) -> str:
    return f"{error}".replace("raise timeout=", "raise --timeout") + _how_to_resume(settings)


def _on_torchruns_ranks(settings: Settings) -> int:
    import torch.distributed as dist

    from course_lib.train import failures
    from course_lib.train.errors import TrainingError

    try:
        outcome = _outcome(settings)
    except TrainingError as error:
        if torchrun.local_rank() == 0:  # all ranks know it: once on each machine
            torchrun.say_error(f"course train: {error}")
        _leave(1)
    except Exception as error:
        said = failures.explained(error, settings.timeout)
        torchrun.say_error(f"course train: {said}{_how_to_resume(settings)}")
        _leave(1)
    except (KeyboardInterrupt, SystemExit) as ended:  # by a second signal
        _leave(getattr(ended, "code", 128 + signal.SIGINT))
    if torchrun.rank() == 0:
        _print_json(settings, outcome)
    dist.destroy_process_group()
    return 0


def _outcome(settings: Settings) -> Outcome:
    from course_lib.train import starting, stopping

    # With --json standard output is the JSON alone, whatever the learner's code prints.
    apart = contextlib.redirect_stdout(sys.stderr) if settings.quiet else contextlib.nullcontext()
    with apart:
        return starting.outcome(settings, stopping.on_signals)


def _leave(status: int) -> NoReturn:
    """At once: to take leave of ranks that are gone, as Python does at its end, would wait for them."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _how_to_resume(settings: Settings) -> str:
    from course_lib.train.checkpoint import newest_step

    if settings.checkpoint is None:
        return "\nNothing of it is kept: --checkpoint FOLDER keeps what a run can go on from."
    step = newest_step(settings.checkpoint)
    place = "the newest checkpoint that rank 0 has written" if step is None else f"step {step}"
    return f"\nStart the same command again, and the run goes on after {place} ({settings.checkpoint})."


def _print_json(settings: Settings, outcome: Outcome) -> None:
    if settings.quiet:
        print(json.dumps(outcome.as_json()))
