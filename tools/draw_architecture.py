"""Draw the library's parts and who stands on whom, from what its modules really import.

    .venv-test/bin/python tools/draw_architecture.py

writes docs/architecture.svg.  LAYERS is the one list of all parts; a test holds the library to it.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from html import unescape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

PICTURE = ROOT / "docs" / "architecture.svg"
_LIBRARY = "course_lib"

# From the top down: each layer's parts, and each part's modules.  A part stands on layers below its own, and
# parts of one layer know nothing of each other.  A package stands for all its modules that are not named.
LAYERS: list[dict[str, list[str]]] = [
    {"commands": ["cli", "__main__", "train.__main__", "doctor", "notebook_run", "exercise_sources"]},
    {"course train": ["train"]},
    {"classroom": ["classroom"]},
    {"explorers": ["explorers"], "checks": ["checks"]},
    {"measuring": ["measured_memory", "measured_utilization", "all_reduce_timing", "overlap_timing",
                   "layer_times", "timing"]},
    {"pieces of training": ["all_reduce", "data_parallel", "overlap", "sharded", "storages", "timeline"]},
    {"ranks": ["ranks"],
     "pictures": ["ring_table", "ring_drawing", "timeline.drawing", "timeline.trace", "memory_pictures",
                  "cost_pictures", "noise_pictures", "sharded_pictures", "training_pictures",
                  "utilization_pictures"],
     "kept numbers": ["measurements", "predictions"]},
    {"formulas": ["memory", "activations", "transformer", "gpt", "hardware", "cost_model", "buckets",
                  "simulator", "noise_scale", "noisy_quadratic", "utilization", "streams",
                  "timeline.spans", "timeline.hiding"],
     "this machine": ["machine", "namespaces", "processes", "links"]},
    {"ground": ["", "arguments", "palette", "pictures", "working_copy", "corpus"]},
]  # fmt: skip
PARTS = {part: modules for layer in LAYERS for part, modules in layer.items()}
HEIGHTS = {part: -row for row, layer in enumerate(LAYERS) for part in layer}


class Import(NamedTuple):
    """``module`` imports ``imported``; ``later``: not when it is loaded, but when a function is called."""

    module: str
    imported: str
    later: bool = False


# --- what imports what ---


def sources() -> dict[str, ast.Module]:
    """Module -> its syntax tree.  Names are without ``course_lib.``; the library itself is ``""``."""
    paths = sorted((ROOT / _LIBRARY).rglob("*.py"))
    return {_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT / _LIBRARY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(trees: dict[str, ast.Module]) -> set[Import]:
    """What each module imports of the library.

    A name that a package only hands on counts as imported from the module that defines it.  Imports for type
    hints only are left out, since nothing of them is there when the program runs.
    """
    direct = {module: list(_of_library(tree)) for module, tree in trees.items()}
    handed_on = {
        (module, name): source
        for module, found in direct.items() for source, name, later in found
        if not later and source.startswith(f"{module}.")
    }  # fmt: skip
    result = set()
    for module, found in direct.items():
        for source, name, later in found:
            inner = f"{source}.{name}".lstrip(".")
            target = inner if inner in trees else handed_on.get((source, name), source)
            if target != module:
                result.add(Import(module, target, later))
    return result | {Import("cli", module, later=True) for module in _commands(trees["cli"])}


def _of_library(tree: ast.AST, later: bool = False) -> Iterator[tuple[str, str, bool]]:
    """The module, the name taken from it, and whether that happens in a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == _LIBRARY:
            for alias in node.names:
                yield (node.module or "").removeprefix(_LIBRARY).lstrip("."), alias.name, later
        yield from _of_library(node, later or isinstance(node, ast.FunctionDef))


def _commands(tree: ast.Module) -> Iterator[str]:
    """The command line knows its modules by name, and imports the one that is asked for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and str(node.value).startswith(f"{_LIBRARY}."):
            yield str(node.value).removeprefix(f"{_LIBRARY}.")


def part_of(module: str) -> str:
    """The part that names the module, or the longest package that it is in.  Raises KeyError for none."""
    named = {name: part for part, names in PARTS.items() for name in names}
    while module not in named:
        if "." not in module:
            raise KeyError(f"{module!r} is in no part: name it in LAYERS of tools/draw_architecture.py")
        module = module.rpartition(".")[0]
    return named[module]


def arrows(found: Iterable[Import]) -> set[tuple[str, str]]:
    """(part, part that it stands on)"""
    pairs = {(part_of(each.module), part_of(each.imported)) for each in found}
    return {(upper, lower) for upper, lower in pairs if upper != lower}


def without_detours(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Arrows to the next parts only: what is reached over another part needs no arrow of its own."""
    return {(a, c) for a, c in pairs if not any((a, b) in pairs and _reaches(b, c, pairs) for b in PARTS)}


def _reaches(start: str, end: str, pairs: set[tuple[str, str]]) -> bool:
    return any(lower == end or _reaches(lower, end, pairs) for upper, lower in pairs if upper == start)


# --- the picture ---

_WIDTH, _ROW, _BOX = 10.0, 1.05, 0.83  # inches
_LETTERS = 16.5  # in an inch of the small font
_LINE = 0.13
# From where to where each box goes; all the way where nothing is said.  Long arrows run where no box is.
_SIDES = {
    "classroom": (2.8, 9.8), "checks": (2.8, 5.8), "explorers": (6.1, 8.5), "measuring": (0.2, 2.6),
    "pieces of training": (0.2, 2.6), "pictures": (0.2, 3.6), "ranks": (3.9, 7.0), "kept numbers": (7.3, 9.8),
    "formulas": (0.2, 3.6), "this machine": (3.9, 8.9),
}  # fmt: skip
_AT = {("classroom", "kept numbers"): 9.15, ("kept numbers", "ground"): 9.4}


def draw(pairs: set[tuple[str, str]], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    height = _ROW * len(LAYERS)
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    trees = sources()
    for part, modules in PARTS.items():
        _draw_box(axes, part, _package_head(trees, modules) or ", ".join(filter(None, modules)))
    for arrow in sorted(without_detours(pairs)):
        _draw_arrow(axes, *arrow)
    with matplotlib.rc_context({"svg.hashsalt": PICTURE.name}):  # the same file at each run
        figure.savefig(path, metadata={"Date": None})


def _sides(part: str) -> tuple[float, float]:
    return _SIDES.get(part, (0.2, _WIDTH - 0.2))


def _top(part: str) -> float:
    return (_ROW - _BOX) / 2 - HEIGHTS[part] * _ROW


def _package_head(trees: dict[str, ast.Module], modules: list[str]) -> str:
    """Of a part that is one package, the sentence at its head."""
    is_package = len(modules) == 1 and any(name.startswith(f"{modules[0]}.") for name in trees)
    return (ast.get_docstring(trees[modules[0]]) or "").split("\n")[0].replace("``", "") if is_package else ""


def _draw_box(axes, part: str, text: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    from course_lib.palette import color_of

    (left, right), top = _sides(part), _top(part)
    looks = {"facecolor": "#F2F6FB", "edgecolor": color_of("weights"), "linewidth": 1.2}
    round_corners = "round,pad=0,rounding_size=0.06"
    axes.add_patch(FancyBboxPatch((left, top), right - left, _BOX, boxstyle=round_corners, **looks))
    axes.text(left + 0.1, top + 0.14, part, fontsize=10, weight="bold", va="center")
    for row, line in enumerate(wrap(text, int((right - left - 0.2) * _LETTERS))):
        axes.text(left + 0.1, top + 0.33 + row * _LINE, line, fontsize=8, va="center")


def _draw_arrow(axes, upper: str, lower: str) -> None:
    from matplotlib.patches import FancyArrowPatch

    from course_lib.palette import color_of

    (left, right), (lower_left, lower_right) = _sides(upper), _sides(lower)
    shared = max(left, lower_left), min(right, lower_right)
    if shared[0] < shared[1]:
        start = end = _AT.get((upper, lower), sum(shared) / 2)
    else:  # from corner to corner
        to_the_left = lower_right <= left
        start = left + 0.3 if to_the_left else right - 0.3
        end = lower_right - 0.3 if to_the_left else lower_left + 0.3
    arrow = FancyArrowPatch((start, _top(upper) + _BOX), (end, _top(lower)), arrowstyle="-|>", shrinkA=0,
                            shrinkB=0, mutation_scale=11, color=color_of("communication"))  # fmt: skip
    arrow.set_gid(f"{upper} > {lower}")
    axes.add_patch(arrow)


def drawn_arrows(path: Path = PICTURE) -> set[tuple[str, str]]:
    """Those of a picture that ``draw`` made."""
    names = re.findall(r'id="([^"]*) (?:>|&gt;) ([^"]*)"', path.read_text(encoding="utf-8"))
    return {(unescape(upper), unescape(lower)) for upper, lower in names}


def main() -> int:
    draw(arrows(imports(sources())), PICTURE)
    print(PICTURE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
