"""Download all packages that the course installs into a folder, for a room without internet.

    python3 tools/wheels.py FOLDER [EXTRA ...]

Exact versions, from requirements.lock.  They fit machines with the same operating system, kind of processor
and version of Python as the one that runs this.  TORCH_INDEX names another place for torch, as for `make
lab`.  Needs only Python's standard library, and pip.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.environment import LOCK, ROOT  # noqa: E402

# What hatchling asks for when it makes an editable installation.
FOR_EDITABLE = "editables"


def requirements(*extras: str) -> list[str]:
    """The course's direct dependencies, with those of some extras.  Raises KeyError for an unknown extra."""
    project = _pyproject()["project"]
    chosen = [line for extra in extras for line in project["optional-dependencies"][extra]]
    return [*project["dependencies"], *chosen]


def build_requirements() -> list[str]:
    """What pip needs to install the course itself."""
    return [*_pyproject()["build-system"]["requires"], FOR_EDITABLE]


def commands(folder: Path, *extras: str) -> list[list[str]]:
    """pip's commands, one after the other; what one has downloaded the next one finds."""
    download = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--dest", str(folder)]
    download += ["--only-binary", ":all:"]  # nothing is compiled there
    if not sys.stdout.isatty():
        download.append("--quiet")
    needed = requirements(*extras)
    steps = []
    if os.environ.get("TORCH_INDEX"):
        torch = next(line for line in needed if line.startswith("torch=="))
        steps.append([*download, "--no-deps", "--index-url", os.environ["TORCH_INDEX"], torch])
    found = ["--find-links", str(folder)]
    steps.append([*download, *found, "--constraint", LOCK, *needed])
    steps.append([*download, *found, *build_requirements()])
    return steps


def _pyproject() -> dict:
    return tomllib.loads((Path(ROOT) / "pyproject.toml").read_text())


def main(argv: list[str] | None = None) -> int | str:
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0].startswith("-"):
        return __doc__
    folder = Path(arguments[0]).absolute()
    try:
        for command in commands(folder, *arguments[1:]):
            subprocess.check_call(command)
    except KeyError as unknown:
        return f"There is no extra {unknown}."
    except subprocess.CalledProcessError as error:
        return f"Not complete: `{' '.join(error.cmd)}` failed, see above."
    files = list(folder.iterdir())
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    print(f"{folder}: {len(files)} packages, {megabytes:,.0f} MB.")
    print("Copy this folder into the course's folder on the other machine, and type there:")
    print(f'  PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/{folder.name}" make lab')
    return 0


if __name__ == "__main__":
    sys.exit(main())
