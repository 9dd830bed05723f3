"""The explorer of lesson 04 in JupyterLab: moved with the keyboard, its readout against the library."""

import re

import nbformat
import pytest
from nbformat import v4

from course_lib.explorers.all_reduce_costs import Choice, readout
from tools.clean_notebooks import KERNEL
from tools.lab_browser import open_notebook
from tools.slider_to_picture import press

pytestmark = [pytest.mark.browser, pytest.mark.long]

CELL = """\
from course_lib.explorers.all_reduce_costs import Choice, Point, explorer
explorer([Point("ring", 2**23, 4, 0.26), Point("star", 2**23, 4, 1.01)], Choice(4, 2**23, 5e-4, 50e6))"""
START = Choice(4, 2**23, 5e-4, 50e6)


@pytest.fixture(scope="module")
def my_course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(CELL)], metadata={"kernelspec": KERNEL})
    nbformat.write(notebook, folder / "explorer.ipynb")
    return folder


@pytest.fixture(scope="module")
def opened(browser, server, keep_pictures):
    with open_notebook(browser, server, "explorer.ipynb") as opened:
        opened.run_all()
        picture(opened).wait_for()
        yield opened
        keep_pictures(opened, "all_reduce_costs")


def picture(opened):
    return opened.page.locator(".jp-OutputArea-output img")


def slider(opened, description):
    row = opened.page.locator(".widget-inline-hbox").filter(has_text=re.compile(f"^{description}"))
    return row.locator(".noUi-handle").first


def assert_numbers(opened, choice):
    """The readout's table as it is seen is the library's."""
    rows = [list(row) for row in readout(choice).rows]
    opened.page.get_by_text(readout(choice).notes[1]).wait_for(timeout=30_000)
    seen = opened.page.locator(".widget-html table tr").all()
    assert [row.locator("th, td").all_inner_texts() for row in seen] == rows


def test_it_shows_a_picture_and_the_librarys_numbers(opened):
    assert picture(opened).count() == 1
    assert picture(opened).evaluate("image => image.naturalWidth") == 740
    assert_numbers(opened, START)


def test_keys_move_a_slider_and_picture_and_numbers_follow(opened, request):
    keys = 30 * ["ArrowRight", "ArrowLeft"] + ["ArrowRight"]
    waits = press(opened.page, slider(opened, "tensor"), picture(opened), keys)
    request.node.user_properties.append(("measured", f"all-reduce costs, {waits}"))
    assert picture(opened).count() == 1
    assert_numbers(opened, Choice(4, 2**24, 5e-4, 50e6))
    press(opened.page, slider(opened, "tensor"), picture(opened), ["ArrowLeft"])


@pytest.mark.parametrize(("key", "ranks"), [("End", 4096), ("Home", 2)])
def test_home_and_end_reach_the_ends(opened, key, ranks):
    press(opened.page, slider(opened, "ranks N"), picture(opened), [key])
    assert_numbers(opened, Choice(ranks, 2**23, 5e-4, 50e6))


def test_all_sliders_can_be_reached_by_the_tab_key(opened):
    slider(opened, "ranks N").focus()
    reached = {}
    for _ in range(8):
        reached[opened.page.evaluate(LABEL_IN_FOCUS)] = True
        opened.page.keyboard.press("Tab")
    assert list(reached)[:4] == ["ranks N", "tensor", "latency", "bandwidth"]


LABEL_IN_FOCUS = "document.activeElement.closest('.widget-inline-hbox')?.querySelector('label')?.innerText"


def test_nothing_pops_up_and_the_console_stays_clean(opened):
    assert opened.dialogs() == []
    assert opened.errors == []
