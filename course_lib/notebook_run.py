"""``course run NOTEBOOK``: run a notebook's cells under torchrun, on several GPUs or machines.

    torchrun --standalone --nproc-per-node 4 -m course_lib run notebooks/00_start_here.ipynb

Every rank runs all cells; ``ranks.run`` in a cell uses the ranks that are there.  Rank 0 prints.  Cells that
need another number of ranks, or that fail on purpose, are skipped, and so is what rests on them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import symtable
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.ranks import NeedsLinks, NeedsRanks, torchrun

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# A hang or a crash ends torchrun's ranks for good, so cells that show one can't run there.
FAILS_ON_PURPOSE = "fails-on-purpose"
_LONGEST_LINE = 72


@dataclass(frozen=True)
class CellResult:
    """``status`` is ``ok``, ``skipped`` or ``failed``; ``reason`` says why, "" for ok.

    ``cell`` is the cell's id, which JupyterLab does not show; ``code`` is its first line of code, shortened.
    """

    cell: str
    code: str
    status: str
    reason: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("notebook", type=Path, help="the notebook to run")
    parser.add_argument(
        "--json", action="store_true", help="print what became of each cell as JSON, and no output"
    )


def main(arguments: Namespace) -> int:
    """0 if every cell ran or was skipped for a stated reason; 1 if one failed; 2 for wrong usage."""
    path = arguments.notebook
    if not torchrun.is_here():
        command = f"torchrun --standalone --nproc-per-node 2 -m course_lib run {path}"
        print(f"course run uses the ranks that torchrun started, and there are none. Try:\n  {command}")
        return 2
    try:
        cells = code_cells(path)
    except (OSError, ValueError) as error:
        torchrun.say_error(f"{path} can't be read as a notebook: {error}")
        return 2
    quiet = arguments.json or torchrun.rank() != 0
    results = run_cells(cells, path.parent, quiet)
    if torchrun.rank() == 0:
        print(json.dumps([asdict(result) for result in results]) if arguments.json else summary(results))
    return int(any(result.status == "failed" for result in results))


def code_cells(path: Path) -> list[dict]:
    """The code cells of a notebook file; ValueError if it is none."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("it has no list of cells")
    return [cell for cell in notebook["cells"] if cell.get("cell_type") == "code"]


def run_cells(cells: list[dict], folder: Path, quiet: bool) -> list[CellResult]:
    """Run the cells in the folder, in order, until one fails."""
    os.chdir(folder)
    shell = _shell()
    results: list[CellResult] = []
    missing: set[str] = set()  # names that skipped cells would have defined
    for number, cell in enumerate(cells, start=1):
        source = "".join(cell["source"])
        code = first_line(source)
        status, reason = _run_cell(shell, code, source, _skip_at_once(cell), missing, quiet)
        result = CellResult(cell.get("id") or f"cell {number}", code, status, reason)
        results.append(result)
        if result.status == "skipped":
            missing |= names_defined(source)
        if result.status == "failed":
            break
    return results


def summary(results: list[CellResult]) -> str:
    counts = {
        status: sum(result.status == status for result in results) for status in ("ok", "skipped", "failed")
    }
    lines = [f"{counts['ok']} cells ran, {counts['skipped']} were skipped, {counts['failed']} failed"]
    for result in results:
        if result.status != "ok":
            lines += [f"  {result.status}: {result.code}", f"    {result.reason}"]
    return "\n".join(lines)


def first_line(source: str) -> str:
    """The cell's first line of code that is no comment, shortened: what a reader finds it by."""
    lines = (line.strip() for line in source.splitlines())
    line = next((line for line in lines if line and not line.startswith("#")), "(no code)")
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def names_defined(source: str) -> set[str]:
    """Names that the cell's top level would define; none if it can't be parsed as plain Python."""
    try:
        symbols = symtable.symtable(source, "the cell", "exec").get_symbols()
    except SyntaxError:
        return set()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def _shell() -> InteractiveShell:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance(colors="nocolor")
    shell.showtraceback = lambda *args, **kwargs: None  # the error is reported once, by _run_cell
    # A cell's value stands alone: in a terminal, "Out[0]:" would read like a notebook's number.
    shell.displayhook.write_output_prompt = lambda: None
    shell.displayhook.prompt_end_newline = True
    return shell


def _skip_at_once(cell: dict) -> str:
    fails = FAILS_ON_PURPOSE in cell.get("metadata", {}).get("tags", [])
    return "it fails on purpose, which would end torchrun's ranks" if fails else ""


def _run_cell(
    shell: InteractiveShell, code: str, source: str, skip: str, missing: set[str], quiet: bool
) -> tuple[str, str]:
    """Status and reason."""
    if skip:
        return "skipped", skip
    with contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        done = shell.run_cell(source)
    error = done.error_before_exec or done.error_in_exec
    if error is None:
        return "ok", ""
    if isinstance(error, NeedsRanks | NeedsLinks):
        return "skipped", str(error)
    if isinstance(error, NameError) and error.name in missing:
        return "skipped", f"it needs {error.name}, which a skipped cell defines"
    text = f"{type(error).__name__}: {error}"
    torchrun.say_error(f"rank {torchrun.rank()}, in the cell {code!r}: {text}\n{_learners_lines(error)}")
    return "failed", text


def _learners_lines(error: Any) -> str:
    from course_lib.ranks.frames import folded, lines_of

    return "\n".join(f"  {line}" for line in folded(lines_of(error.__traceback__)))
