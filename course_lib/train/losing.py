"""A run under torchrun that loses a rank in the middle, and goes on by itself from its checkpoint.

    lost = losing.run(train.Settings(ranks=2, steps=30, checkpoint_every=5), rank=1, step=14)
    lost.command, lost.first, lost.goes_on_after, lost.then

The command is that of any run: torchrun's agent, and its ranks.  What they run besides is this module's
``main``: on one rank, and at the first start only, the process ends by SIGKILL when its optimizer has made
the step.  Nobody is told, as with a process for which the machine has no memory left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from course_lib.ranks.devices import loopback
from course_lib.train.errors import TrainingError
from course_lib.train.settings import DEFAULT_RANKS, Settings

_SECONDS_TO_END = 10.0  # for an agent that is told to
_OF_TORCHRUN = re.compile("RANK|WORLD_SIZE|(LOCAL|GROUP|ROLE)_.*|MASTER_.*|TORCHELASTIC_.*")
_GOES_ON = re.compile(r"goes on after step (\d+),")
# With a store that outlives a restart, ranks look for each other at the addresses of the first start.
_NEW_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
_TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node")


@dataclass(frozen=True)
class Lost:
    """What came of it.

    ``command`` as one would type it.  ``first``: losses of the steps before the rank was lost, from step 1
    on; ``goes_on_after``: the step of the checkpoint that ranks went on from; ``then``: losses of the steps
    after that one.
    """

    command: str
    first: list[float]
    goes_on_after: int
    then: list[float]


def run(settings: Settings, *, rank: int, step: int, seconds: float = 120.0) -> Lost:
    """Train under torchrun on this machine, lose a rank in a step, and let the agent start all of them again.

    Checkpoints and log lie in a folder that is there meanwhile.  Raises ValueError for a rank that there is
    not, and for a step before which no checkpoint is due; TrainingError where the run has not ended well
    within so many ``seconds``, with what it said last.
    """
    ranks = settings.ranks or DEFAULT_RANKS
    if not (0 <= rank < ranks and settings.checkpoint_every < step <= settings.steps):
        raise ValueError(
            f"rank={rank!r}, step={step!r}: expected one of {ranks} ranks, and a step from "
            f"{settings.checkpoint_every + 1} to {settings.steps}, so that there is a checkpoint"
        )
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        kept = replace(settings, ranks=None, checkpoint=Path(folder) / "checkpoints", log=log, quiet=False)
        start = [str(ranks), "--max-restarts", "1", "-m"]
        said = _run([*start, __name__, f"{rank}:{step}", *_options(kept)], seconds)
        first, then = _losses(log.with_name(f"{log.name}.before")), _losses(log)
    after = max(int(step) for step in _GOES_ON.findall(said))
    typed = _options(replace(kept, checkpoint=Path("my_run"), log=None))
    command = shlex.join([*_TORCHRUN, *start, "course_lib.train", *typed])
    return Lost(f"{_NEW_STORE}=1 {command}", first, after, then[after:])


def _options(settings: Settings) -> list[str]:
    """Of ``course train``: those that are not the usual ones."""
    changed = {field.name: value for field in fields(Settings)
               if (value := getattr(settings, field.name)) != field.default}  # fmt: skip
    flags = ["--no-utilization"] if changed.pop("utilization", True) is False else []
    names = {"log": "--log-file"}  # torchrun has a --log of its own
    pairs = ((names.get(name, f"--{name.replace('_', '-')}"), f"{value}") for name, value in changed.items())
    return [*flags, *(text for pair in pairs for text in pair)]


def _run(options: Sequence[str], seconds: float) -> str:
    """Returns what was said."""
    command = [sys.executable, "-m", "torch.distributed.run", *_TORCHRUN[1:], *options]
    environment = {name: value for name, value in os.environ.items() if not _OF_TORCHRUN.fullmatch(name)}
    environment |= {"GLOO_SOCKET_IFNAME": loopback(), "OMP_NUM_THREADS": "1", "COURSE_DEVICE": "cpu",
                    _NEW_STORE: "1"}  # fmt: skip
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                   env=environment)  # fmt: skip
        try:
            status: int | str = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = f"not within {seconds:g} s"
        finally:
            _end(process)
        said.seek(0)
        text = said.read()
    if status != 0:
        raise TrainingError(f"torchrun has not ended well ({status}):\n{text[-2000:]}")
    return text


def _end(process: subprocess.Popen) -> None:
    """The agent ends its ranks; without an agent they end by themselves."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS_TO_END)
        return
    process.kill()
    process.wait()


def _losses(log: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in log.read_text(encoding="utf-8").splitlines()]


# --- in a rank ---


def _ending(step: int) -> Callable[..., None]:
    """Called after each step of an optimizer, it ends the process with this one."""
    left = step

    def count(*ignored: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def main(lost: str, options: Sequence[str]) -> int:
    """``course train``, on a rank that may have to be lost: ``lost`` is ``RANK:STEP``."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from course_lib.train import command

    rank, step = map(int, lost.split(":"))
    if (int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]) == (rank, "0"):
        register_optimizer_step_post_hook(_ending(step))
    parser = ArgumentParser()
    command.add_arguments(parser)
    return command.main(parser.parse_args(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
