"""The learner's own copy of the course, ``my_course/``, and ``course lab``, which opens it.

The notebooks of the course are the reference and stay as they are.  Learners work in a copy: lessons without
the outputs that would give a prediction's answer away, exercises without solutions.  A later version of the
course never overwrites what a learner changed: it is laid beside it, as ``….new.ipynb``.

This module starts JupyterLab, so it imports nothing that takes time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

COURSE_ROOT = Path(__file__).resolve().parent.parent
NAME = "my_course"
FIRST_LESSON = "00_start_here.ipynb"
# Its presence says "this folder is a working copy"; what the course wrote there, file by file.
MANIFEST = Path(".course", "manifest.json")

_PREDICTS = re.compile(r"^\s*(?:\w+\.)?predict\(", re.MULTILINE)
# Added to JupyterLab's search path, so it is a default that the user's own settings override.
LAB_SETTINGS: dict[str, dict] = {
    "@jupyterlab/apputils-extension:notification": {"checkForUpdates": False, "fetchNews": "false"},
    # Else long lines of code end at the edge of a narrow window.
    "@jupyterlab/notebook-extension:tracker": {"codeCellConfig": {"lineWrap": True}},
}


class WorkingCopyError(Exception):
    """The working copy can't be written; str() says what is in the way and what to do."""


@dataclass(frozen=True)
class Change:
    """One file that was written: ``kind`` is new, restored, updated or laid beside."""

    path: Path
    kind: str
    beside: Path | None = None  # the learner's own file, when a new version was laid beside it

    def __str__(self) -> str:
        if self.beside is None:
            return f"{self.kind}: {self.path}"
        return f"new version: {self.path} (you changed {self.beside.name}, which stays as it is)"


def write_working_copy(root: Path, destination: Path) -> list[Change]:
    """Bring the learner's notebooks in ``destination`` up to date with the course in ``root``.

    What a learner changed is never overwritten, a file that they deleted comes back, and nothing is written
    when nothing is new.  Each file is written whole or not at all.

    Returns what was written, by path.  Raises WorkingCopyError, with what to do, when ``root`` holds no
    lessons or ``destination`` can't be written.
    """
    if not list(_sources(root)):
        raise WorkingCopyError(
            f"No lessons found in {root / 'notebooks'}. Run this from a complete copy of the course."
        )
    try:
        (destination / MANIFEST).parent.mkdir(parents=True, exist_ok=True)
        manifest = _Manifest(destination)
        changes = [_refresh(path, _for_learners(source), manifest) for path, source in _sources(root)]
        manifest.save()
    except OSError as error:
        raise WorkingCopyError(
            f"Can't write the working copy: {error.strerror}: {error.filename}. "
            f"Make {destination} a folder that you may write to, or move it away."
        ) from error
    return [change for change in changes if change is not None]


def find(start: Path | None = None) -> Path | None:
    """The working copy that ``start`` (by default the current folder) lies in; None outside of one."""
    folder = (start or Path.cwd()).resolve()
    return next((place for place in (folder, *folder.parents) if (place / MANIFEST).is_file()), None)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new one and nothing between."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)  # mkstemp's files are for their owner alone
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _sources(root: Path) -> Iterator[tuple[str, Path]]:
    """Each notebook of the course: its path in the working copy, and where it comes from."""
    for lesson in sorted((root / "notebooks").glob("*.ipynb")):
        yield lesson.name, lesson
    for exercise in sorted((root / "exercises").glob("*.ipynb")):
        yield f"exercises/{exercise.name}", exercise


def _for_learners(source: Path) -> bytes:
    """A notebook without the outputs of its first prediction and of all that follows."""
    notebook = json.loads(source.read_bytes())
    predicted = False
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        predicted = predicted or bool(_PREDICTS.search("".join(cell["source"])))
        if predicted:
            cell["outputs"], cell["execution_count"] = [], None
    return (json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _refresh(path: str, content: bytes, manifest: _Manifest) -> Change | None:
    """Bring one file up to date, unless the learner changed it."""
    target = manifest.folder / path
    entry = manifest.files.get(path)
    version = _hash(content)
    if not target.exists():
        _write(target, content)
        manifest.files[path] = {"version": version, "source": _source_hash(content)}
        return Change(Path(path), "restored" if entry else "new")
    if entry and entry["version"] == version:
        return None
    present = target.read_bytes()
    learners, new = _source_hash(present), _source_hash(content)
    if entry and _hash(present) == entry["version"] or entry and learners == entry["source"] != new:
        _write(target, content)
        manifest.files[path] = {"version": version, "source": new}
        return Change(Path(path), "updated")
    # Only outputs differ from the new version, so it has nothing that the learner lacks.
    if learners == new:
        manifest.files[path] = {"version": version, "source": new}
        return None
    return _lay_beside(path, content, manifest)


def _lay_beside(path: str, content: bytes, manifest: _Manifest) -> Change:
    """Write a new version under a name of its own, which may not be one that the learner changed, too."""
    own = Path(path)
    version = _hash(content)
    beside = next(
        name for name in _names_beside(own) if _is_free(manifest.folder / name, manifest.files.get(str(name)))
    )
    _write(manifest.folder / beside, content)
    manifest.files[beside.as_posix()] = {"version": version, "source": _source_hash(content)}
    # The learner's file is still based on the version before; only that this one was shown is noted.
    manifest.files[path] = {**manifest.files.get(path, {"source": ""}), "version": version}
    return Change(beside, "laid beside", beside=own)


def _names_beside(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.stem}.new.ipynb")
    number = 2
    while True:
        yield path.with_name(f"{path.stem}.new-{number}.ipynb")
        number += 1


def _is_free(target: Path, entry: dict | None) -> bool:
    """Whether nothing is lost when this name is written to."""
    return not target.exists() or entry is not None and _hash(target.read_bytes()) == entry["version"]


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, content)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _source_hash(content: bytes) -> str:
    """The same for notebooks whose cells hold the same text, whatever their outputs and metadata.

    JupyterLab rewrites those when it saves; that is no change by the learner.
    """
    try:
        cells = [
            (cell["cell_type"], "".join(cell["source"]).rstrip()) for cell in json.loads(content)["cells"]
        ]
        return _hash(json.dumps(cells).encode())
    except (ValueError, KeyError, TypeError, RecursionError):
        return _hash(content)  # not a notebook any more, so certainly changed


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("version", "source"))


class _Manifest:
    """What the course wrote into a working copy: for each path the hash of the file and of its cells."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._saved = self._read()
        self.files: dict[str, dict[str, str]] = dict(self._saved)

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            files = json.loads((self.folder / MANIFEST).read_bytes())["files"]
            return {path: entry for path, entry in files.items() if _is_entry(entry)}
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}  # lost: then every file that differs counts as changed by the learner

    def save(self) -> None:
        if self.files != self._saved or not (self.folder / MANIFEST).exists():
            text = json.dumps({"files": self.files}, indent=1, sort_keys=True) + "\n"
            write_atomically(self.folder / MANIFEST, text.encode())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``course lab``: all are JupyterLab's."""
    # argparse refuses an unknown option before a positional argument, even with REMAINDER.
    parser.prefix_chars = "\0"
    parser.add_argument(
        "options", nargs="*", metavar="OPTION", help="of JupyterLab, such as --no-browser or --port=9000"
    )
    parser.set_defaults(help=parser.format_help)


def main(arguments: argparse.Namespace) -> int:
    """Refresh the working copy, say what is new, and become JupyterLab."""
    if {"-h", "--help"} & set(arguments.options):
        print(arguments.help())
        return 0
    if find_spec("jupyterlab") is None:
        print("JupyterLab is not installed in this environment. Type `make lab` in the course's folder.")
        return 1
    folder = COURSE_ROOT / NAME
    try:
        changes = write_working_copy(COURSE_ROOT, folder)
        environment = _lab_environment(folder)
    except WorkingCopyError as error:
        print(error)
        return 1
    _say(changes, folder)
    return _become(_lab_command(folder, arguments.options), environment, folder)


def _say(changes: list[Change], folder: Path) -> None:
    if changes and all(change.kind == "new" for change in changes):
        print(f"Your own copy of the course: {folder} ({len(changes)} notebooks)")
    else:
        print(f"Your own copy of the course: {folder}")
        for change in changes:
            print(f"  {change}")
    sys.stdout.flush()


def _lab_command(folder: Path, options: list[str]) -> list[str]:
    """JupyterLab on loopback and a free port, with its token on; the learner's options come last and win."""
    page = f"/lab/tree/{FIRST_LESSON}" if (folder / FIRST_LESSON).exists() else "/lab"
    given = {option.split("=")[0].rpartition(".")[2].lstrip("-") for option in options}
    place = [f"--ServerApp.root_dir={folder}"]
    # JupyterLab refuses an option that is given twice.
    place += [
        f"--ServerApp.{name}={value}"
        for name, value in (("ip", "127.0.0.1"), ("port", 0))
        if name not in given
    ]
    return [sys.executable, "-m", "jupyterlab", *place, f"--LabApp.default_url={page}", *options]


def _lab_environment(folder: Path) -> dict[str, str]:
    """This environment with the command `course`, and the course's defaults for JupyterLab."""
    settings = folder / MANIFEST.parent / "jupyter"
    overrides = settings / "labconfig" / "default_setting_overrides.json"
    content = (json.dumps(LAB_SETTINGS, indent=1) + "\n").encode()
    if not overrides.exists() or overrides.read_bytes() != content:
        _write(overrides, content)
    paths = [str(settings), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths)),
        "PATH": os.pathsep.join(filter(None, programs)),
    }


def _become(command: list[str], environment: dict[str, str], folder: Path) -> int:
    if os.name == "nt":  # Windows has no exec: the caller would come back while JupyterLab still runs
        return subprocess.call(command, env=environment, cwd=folder)
    os.chdir(folder)
    os.execve(command[0], command, environment)
