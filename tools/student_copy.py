"""Write a zip of the course for learners: without solutions, instructor's pages and stored answers.

    python tools/student_copy.py [FILE]            course-student.zip, if no FILE is given

What git tracks is copied as it stands in the folder, all of it under ``course/``.  The same files give the
same zip, byte for byte.
"""

import argparse
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "course-student.zip"
TOP = "course"
# The tests are left out as a whole: they hold right and wrong answers, and need the solutions.
LEFT_OUT = ("exercises/solutions", "docs/instructor", "tests", ".ci", ".pre-commit-config.yaml")
_FIRST_DATE_OF_ZIP = (1980, 1, 1, 0, 0, 0)


def is_for_learners(path: str) -> bool:
    """Whether a file, given by its path in the project, belongs into the learners' copy."""
    return not any(path == left or path.startswith(f"{left}/") for left in LEFT_OUT)


def files(root: Path = ROOT) -> list[str]:
    """The paths of all files for learners.  Raises CalledProcessError where this is no git checkout."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, text=True)
    tracked = sorted(path for path in listed.split("\0") if path and (root / path).is_file())
    return [path for path in tracked if is_for_learners(path)]


def write(target: Path, root: Path = ROOT) -> int:
    """Write the zip; returns how many files are in it."""
    paths = files(root)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in paths:
            entry = zipfile.ZipInfo(f"{TOP}/{path}", _FIRST_DATE_OF_ZIP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (root / path).stat().st_mode << 16  # scripts stay executable
            archive.writestr(entry, (root / path).read_bytes())
    return len(paths)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path(NAME), help=f"by default {NAME}")
    target = parser.parse_args(argv).file
    try:
        count = write(target)
    except subprocess.CalledProcessError:
        print("This is no git checkout, so nobody knows which files belong to the course. Clone it first.")
        return 1
    print(f"{target}: {count} files, without {', '.join(LEFT_OUT[:3])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
