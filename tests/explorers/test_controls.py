"""The sliders and menus of all explorers can be read: no description and no value is cut off."""

import pkgutil
from importlib import import_module
from inspect import signature

import ipywidgets as widgets
import pytest
from matplotlib.textpath import TextPath

from course_lib import explorers

READOUT = 148 / 13  # em: ipywidgets cuts off what is wider, at JupyterLab's 13 pixels
NAMES = [name for _, name, _ in pkgutil.iter_modules(explorers.__path__)
         if hasattr(import_module(f"{explorers.__name__}.{name}"), "explorer")]  # fmt: skip


def ems(text):
    return TextPath((0, 0), text, size=100).get_extents().width / 100


@pytest.fixture(params=NAMES)
def controls(request):
    explorer = import_module(f"{explorers.__name__}.{request.param}").explorer
    needed = [each for each in signature(explorer).parameters.values() if each.default is each.empty]
    return explorer(*([] for _ in needed)).children[0].children


def test_all_explorers_are_looked_at():
    assert len(NAMES) >= 10


def test_descriptions_have_room(controls):
    for control in controls:
        if "em" in str(width := control.style.description_width):
            assert ems(control.description) < float(width.removesuffix("em")), control.description


def test_values_have_room_beside_their_slider(controls):
    options = [each for control in controls if isinstance(control, widgets.SelectionSlider)
               for each in control.options]  # fmt: skip
    texts = [each[0] if isinstance(each, tuple) else str(each) for each in options]
    assert [text for text in texts if ems(text) > READOUT] == []
