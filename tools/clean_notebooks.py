"""Keep the outputs of notebooks, and take the noise away that differs at each run and on each machine.

    python tools/clean_notebooks.py NOTEBOOK ...            rewrites them
    python tools/clean_notebooks.py --check NOTEBOOK ...    only says which need it

Taken away: execution times, cuts within a stream, the state of widgets and the views that need it, the exact
Python version, the names of kernels. What only the author can mend is refused, with its cell: local paths and
memory addresses in outputs, since they differ for every reader. Exit status 1 if a notebook is, or was, not
clean.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
CELL_NOISE = ("execution", "ExecuteTime", "collapsed", "scrolled")
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
REFUSED = {
    "a local path": re.compile(r"(?:/(?:home|root|Users|tmp|var/folders)/|\b[A-Z]:\\Users\\)\S*"),
    "a memory address": re.compile(r"\bat 0x[0-9a-fA-F]{6,}"),
}


def clean(notebook: nbformat.NotebookNode) -> None:
    """Take the noise out of a notebook, in place."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = dict(KERNEL)
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        for name in CELL_NOISE:
            cell.metadata.pop(name, None)
        if "outputs" in cell:
            cell.outputs = joined(cell.outputs)
        for output in cell.get("outputs", []):
            clean_output(output)


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Pieces of one stream in a row as one: where a stream is cut depends on times."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        if kept and "name" in output and kept[-1].get("name") == output.name:
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def clean_output(output: nbformat.NotebookNode) -> None:
    """A widget's view shows nothing without its kernel, so what stands beside it is what readers see."""
    if len(output.get("data", {})) > 1:
        output.data.pop(WIDGET_VIEW, None)


def refusals(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """What must not stand in an output, one sentence each."""
    for number, cell in enumerate(notebook.cells, start=1):
        for output in cell.get("outputs", []):
            for what, pattern in REFUSED.items():
                found = pattern.search(text_of(output))
                if found:
                    yield f"cell {number} ({cell.id}) shows {what}: {found.group()}"


def text_of(output: nbformat.NotebookNode) -> str:
    """All text of an output that a reader can see; pictures hold none."""
    data = [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]
    return "\n".join([output.get("text", ""), *data, *output.get("traceback", []), output.get("evalue", "")])


def problems(path: Path, rewrite: bool) -> list[str]:
    """What is wrong with one notebook file; noise is taken out of the file if `rewrite`."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    clean(notebook)
    after = nbformat.writes(notebook) + "\n"
    found = list(refusals(notebook))
    if after != before:
        if rewrite:
            path.write_text(after, encoding="utf-8")
        found.append("noise taken out" if rewrite else f"has noise: python tools/clean_notebooks.py {path}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing")
    arguments = parser.parse_args()
    found = [(path, text) for path in arguments.notebooks for text in problems(path, not arguments.check)]
    for path, text in found:
        print(f"{path}: {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
