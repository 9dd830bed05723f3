"""Runs nbgrader as it has to be run: ``python -m tools.run_nbgrader autograde exercise``.

nbgrader starts alembic by its name, which is found only where this environment's programs are on PATH.  Where
it is not, nbgrader fails, leaves a gradebook without tables behind, and the next try ends in another error.
So the programs are put there, and a gradebook that a failed command has begun is removed.  (The programs of
nbgrader are in the classroom extra.)
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GRADEBOOK = "gradebook.db"


def run(folder: Path, *arguments: str) -> int:
    """nbgrader's exit status; it prints what it has to say."""
    is_new = not (folder / GRADEBOOK).exists()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "nbgrader", *arguments]
    status = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}).returncode
    if status and is_new:
        (folder / GRADEBOOK).unlink(missing_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(run(Path.cwd(), *sys.argv[1:]))
