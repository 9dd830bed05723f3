"""How fast a function is on several ranks: ``ranks.run`` against torchrun, measured in one run.

    python benchmarks/ranks_run.py

Prints medians and ratios; the bars are those that the course holds itself to.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from course_lib import ranks

RANKS, CALLS, TORCHRUNS, IMPORTS = 4, 25, 3, 9

UNDER_TORCHRUN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
tensor = torch.ones(4)
dist.all_reduce(tensor)
assert tensor[0] == dist.get_world_size()
dist.barrier()  # who leaves early breaks the connections that others are still making
dist.destroy_process_group()
"""


def all_reduce_once() -> float:
    import torch
    import torch.distributed as dist

    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    return tensor[0].item()


def median_seconds(action: Callable[[], object], times: int) -> float:
    """Of so many calls."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def call() -> None:
    assert ranks.run(all_reduce_once, RANKS, device="cpu") == [RANKS] * RANKS


def torchrun(script: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    subprocess.run([*command, str(script)], check=True, capture_output=True, timeout=300)


def python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def rows() -> list[tuple[str, str, str, bool]]:
    """What was measured, its value, its bar ("" for none), and whether that holds."""
    first = median_seconds(call, 1)
    warm = median_seconds(call, CALLS)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(UNDER_TORCHRUN)
        launched = median_seconds(lambda: torchrun(script), TORCHRUNS)
    imported = median_seconds(lambda: python("import course_lib"), IMPORTS)
    imported -= median_seconds(lambda: python("pass"), IMPORTS)
    return [
        ("4 ranks, one all-reduce, first call", f"{first:.2f} s", "", True),
        (f"the same, warm, median of {CALLS}", f"{warm:.3f} s", "at most 0.25 s", warm <= 0.25),
        (f"the same under torchrun, median of {TORCHRUNS}", f"{launched:.2f} s", "", True),
        ("torchrun / ranks.run", f"{launched / warm:.0f}×", "at least 15×", launched / warm >= 15),
        ("import course_lib, beyond starting Python", f"{imported:.3f} s", "under 0.3 s", imported < 0.3),
    ]


def main() -> int:
    found = rows()
    for what, value, bar, holds in found:
        print(f"{what:<45} {value:>9}   {bar:<15} {'' if not bar else 'ok' if holds else 'MISSED'}".rstrip())
    return int(not all(holds for *_, holds in found))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
