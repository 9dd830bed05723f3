"""What Jupyter Book reads: the course's pages, in the places in which a learner has them.

Lessons lie beside the folder of exercises, as in a working copy, so the links between notebooks hold as they
are.  Nothing is executed.  Solutions are not among the pages, nor is the instructor's kit: it holds answers.
"""

import json
import re
import shutil
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

from tools.launch_links import links, repository
from tools.site import explorer_states

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PARTS = {
    "Lessons": ["[0-9]*.ipynb", "explorers.md"],
    "Exercises": ["exercises/*.ipynb"],
    "To look up": ["docs/glossary.md", "docs/coverage.md", "docs/elsewhere.md", "docs/clusters.md"],
    "To change the course": ["docs/architecture.md", "CONTRIBUTING.md", "CHANGELOG.md"],
}
AS_THEY_ARE = ["CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "LICENSE-TEXT", "docs/architecture.svg"]
_TO_NOTEBOOKS = re.compile(r"(\]\((?:\.\./)*)notebooks/")
_LINK_TO_KIT = re.compile(r"\[(docs/instructor)\]\([^)]*\)")
_ROW_OF_MAP = re.compile(r"^\| (\**)((0\d) [A-Z][^|*]+?)\1 \|", re.MULTILINE)
_PAGE_OF_DOCS = re.compile(r"(?<!\[)`(docs/[\w/]+\.md)`")
_ROW_OF_COVERAGE = re.compile(r"^(\| .+ \| )([\d, ]+)( \| )([▶`].+)$", re.MULTILINE)


def write_pages(folder: Path, root: Path = ROOT) -> None:
    """Write all pages into an empty folder, with their table of contents and the configuration."""
    lessons = {path.stem[:2]: path for path in sorted(root.glob("notebooks/*.ipynb"))}
    for path in lessons.values():
        _write_notebook(path, folder / path.name, root, lessons)
    for path in sorted(root.glob("exercises/*.ipynb")):
        _write_notebook(path, folder / "exercises" / path.name, root, lessons)
    for path in [root / "README.md", *root.glob("docs/*.md")]:
        name = str(path.relative_to(root)).replace("\\", "/")
        _write(folder / ("index.md" if name == "README.md" else name), _page(name, path, lessons))
    for name in AS_THEY_ARE:
        shutil.copy(root / name, folder / name)
    shutil.copytree(root / "docs" / "pictures", folder / "docs" / "pictures")
    _write(folder / "explorers.md", explorer_states.write_page(folder))
    shutil.copytree(HERE / "static", folder / "_static")
    shutil.copy(HERE / "config.yml", folder / "_config.yml")
    _write(folder / "_toc.yml", json.dumps(contents(folder)))  # JSON is YAML


def contents(folder: Path) -> dict:
    """The table of contents of the pages that are there, each once."""
    parts, seen = [], set()
    for caption, patterns in PARTS.items():
        found = [path for each in patterns for path in sorted(folder.glob(each))]
        new = [name for path in found if (name := path.relative_to(folder).as_posix()) not in seen]
        seen |= set(new)
        parts.append({"caption": caption, "chapters": [{"file": name} for name in new]})
    return {"format": "jb-book", "root": "index", "parts": parts}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _page(name: str, path: Path, lessons: dict[str, Path]) -> str:
    """A page in Markdown, for the site."""
    text = _TO_NOTEBOOKS.sub(r"\1", path.read_text(encoding="utf-8"))
    if name == "README.md":
        return _LINK_TO_KIT.sub(r"`\1`", linked_map(text, lessons))
    if name == "docs/coverage.md":
        return linked_cells(text, lessons)
    return text


def linked_map(text: str, lessons: dict[str, Path]) -> str:
    """The map of the course, whose rows lead to the lessons."""
    return _ROW_OF_MAP.sub(lambda row: f"| {row[1]}[{row[2]}]({lessons[row[3]].name}){row[1]} |", text)


def linked_cells(text: str, lessons: dict[str, Path]) -> str:
    """The table of coverage, whose names of cells lead to them."""
    cells = {number: {cell.id for cell in _read(path).cells} for number, path in lessons.items()}

    def link(row: re.Match) -> str:
        def to_cell(name: re.Match) -> str:
            number = next(each for each in row[2].split(", ") if name[1] in cells[each])
            page = lessons[number].with_suffix(".html").name
            return f'<a href="../{page}#{anchor(name[1])}"><code>{name[1]}</code></a>'

        return row[1] + row[2] + row[3] + re.sub(r"`([\w-]+)`", to_cell, row[4])

    return _ROW_OF_COVERAGE.sub(link, text)


def anchor(cell_id: str) -> str:
    """Where in its page a cell is found; headings have anchors of their own, that may be named alike."""
    return f"cell-{cell_id}"


def _write_notebook(path: Path, target: Path, root: Path, lessons: dict[str, Path]) -> None:
    notebook = _read(path)
    title = notebook.cells[0]
    title.source += "\n\n" + links(repository(root), path.relative_to(root).as_posix())
    notebook.cells = [each for cell in notebook.cells for each in _prepared(cell, lessons)]
    _write(target, nbformat.writes(notebook))


def _prepared(cell: NotebookNode, lessons: dict[str, Path]) -> list[NotebookNode]:
    """A cell with what Jupyter Book must know of it, and beside it a place to which links can lead."""
    folded = cell.metadata.get("jupyter", {}).get("outputs_hidden", False)
    cell.metadata = NotebookNode(tags=["hide-output"] if folded else [])
    place = v4.new_markdown_cell(f'<div id="{anchor(cell.id)}"></div>')
    if cell.cell_type == "code":
        cell.metadata.mystnb = {"image": _looks(cell)}
        return [place, cell]
    # A learner's working copy has no docs, so there they are only named.
    cell.source = _PAGE_OF_DOCS.sub(r"[`\1`](/\1)", linked_map(cell.source, lessons))
    return [cell, place] if cell.source.startswith("# ") else [place, cell]  # a page begins with its title


def _looks(cell: NotebookNode) -> dict[str, str]:
    """Description and size of a cell's picture.  Raises ValueError for several, since there is one place."""
    pictures = [each.metadata["image/png"] for each in cell.outputs if "image/png" in each.get("data", {})]
    if len(pictures) > 1:
        raise ValueError(f"cell {cell.id} shows {len(pictures)} pictures: expected one at most")
    return {"alt": pictures[0]["alt"], "width": f"{pictures[0]['width']}px"} if pictures else {}


def _read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)
