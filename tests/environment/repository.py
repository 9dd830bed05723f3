"""The project's files as git knows them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked_files(*patterns: str) -> list[str]:
    """Paths relative to the project's folder, of all tracked files or of those that match a pattern."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, text=True)
    return [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
