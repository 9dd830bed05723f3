"""A fresh environment, made from environment.yml's pip part."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environment.repository import ROOT, tracked_files
from tests.environment.test_agreement import pip_part

INSTALL_LIMIT = 900  # seconds; on a slow line torch takes its time


@dataclass(frozen=True)
class FreshCourse:
    """A checkout of its own, and an environment with nothing in it but the course."""

    checkout: Path
    environment: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess:
        """Run one of the environment's programs in the checkout, as after activating the environment."""
        command = [self.environment / "bin" / program, *arguments]
        return subprocess.run(command, cwd=self.checkout, capture_output=True, text=True, timeout=180)


@pytest.fixture(scope="session")
def fresh_course(tmp_path_factory) -> FreshCourse:
    return install(tmp_path_factory.mktemp("fresh"))


def install(folder: Path) -> FreshCourse:
    fresh = FreshCourse(folder / "checkout", folder / "environment")
    for path in tracked_files():
        (fresh.checkout / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, fresh.checkout / path)
    # As conda does it: the lines in a file beside environment.yml, so that relative paths hold.
    (fresh.checkout / "pip-part.txt").write_text("\n".join(pip_part()))
    checked(sys.executable, "-m", "venv", fresh.environment)
    pip = fresh.environment / "bin" / "pip"
    checked(pip, "install", "--quiet", "--no-compile", "-r", "pip-part.txt", cwd=fresh.checkout)
    return fresh


def checked(*command, **options) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
