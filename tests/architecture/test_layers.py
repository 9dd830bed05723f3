"""The library's parts stand on each other in one direction, and docs/architecture.svg shows how."""

import subprocess
import sys

import pytest

from tools import draw_architecture as architecture

FOUND = architecture.imports(architecture.sources())
ARROWS = architecture.arrows(FOUND)
FORMULAS = [module for module in architecture.sources()
            if architecture.part_of(module) == "formulas" and module != "gpt"]  # fmt: skip


def circles(pairs: set[tuple[str, str]]) -> set[str]:
    """What is left when all that nobody needs, or that needs nobody, has gone: the circles."""
    while True:
        needing, needed = {upper for upper, _ in pairs}, {lower for _, lower in pairs}
        inner = {(upper, lower) for upper, lower in pairs if upper in needed and lower in needing}
        if inner == pairs:
            return needing & needed
        pairs = inner


def test_each_module_is_in_a_part_and_each_part_has_its_modules():
    modules = set(architecture.sources())
    named = [module for modules_of_part in architecture.PARTS.values() for module in modules_of_part]
    assert len(named) == len(set(named)) and set(named) <= modules
    assert {architecture.part_of(module) for module in modules} == set(architecture.PARTS)


def test_parts_stand_on_lower_layers_only():
    upward = [each for each in sorted(FOUND)
              if architecture.HEIGHTS[architecture.part_of(each.imported)]
              >= architecture.HEIGHTS[architecture.part_of(each.module)]
              and architecture.part_of(each.imported) != architecture.part_of(each.module)]  # fmt: skip
    assert upward == []


def test_no_modules_import_each_other_in_a_circle():
    assert circles({(each.module, each.imported) for each in FOUND if not each.later}) == set()


def test_the_only_circles_of_late_imports_are_a_formula_and_what_it_shows():
    # transformer.GPT and ring_table.picture import torch and matplotlib when somebody asks for them.
    known = {"transformer", "gpt", "ring_table", "ring_drawing"}
    assert circles({(each.module, each.imported) for each in FOUND}) == known


@pytest.mark.parametrize("upper, lower", [
    ("formulas", "ranks"), ("formulas", "explorers"), ("ranks", "pieces of training"), ("ranks", "checks"),
    ("explorers", "ranks"), ("checks", "classroom"), ("ranks", "classroom"), ("classroom", "explorers"),
])  # fmt: skip
def test_what_knows_nothing_of_what(upper, lower):
    reached, new = set(), {upper}
    while new:
        reached |= new
        new = {below for above, below in ARROWS if above in new} - reached
    assert lower not in reached


def test_formulas_load_no_torch_no_widgets_no_ranks_and_no_plots():
    heavy = ["torch", "ipywidgets", "matplotlib", "multiprocessing", "course_lib.ranks"]
    lines = [*(f"import course_lib.{module}" for module in FORMULAS), "import sys",
             f"print([name for name in {heavy} if name in sys.modules])"]  # fmt: skip
    said = subprocess.check_output([sys.executable, "-c", "\n".join(lines)], text=True, timeout=120)
    assert said.strip() == "[]"


def test_the_picture_shows_the_arrows_that_there_are():
    assert architecture.drawn_arrows() == architecture.without_detours(ARROWS), \
        "draw it anew: .venv-test/bin/python tools/draw_architecture.py"


def test_the_picture_names_the_parts_that_there_are(tmp_path):
    anew = tmp_path / architecture.PICTURE.name
    architecture.draw(ARROWS, anew)
    assert architecture.drawn_arrows(anew) == architecture.without_detours(ARROWS)


def test_circles_are_found():
    assert circles({("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("c", "e")}) == {"a", "b", "c"}
    assert circles({("a", "b"), ("b", "c"), ("a", "c")}) == set()


def test_imports_are_found_where_they_stand():
    trees = architecture.sources()
    found = architecture.imports(trees)
    assert architecture.Import("simulator.step", "timeline.spans") in found  # timeline only hands it on
    assert architecture.Import("timeline.clocks", "ranks", later=True) in found
    assert architecture.Import("cli", "doctor", later=True) in found
    assert architecture.Import("ring_table", "pictures") not in found  # for type hints only
