"""The explorer of lesson 04 in JupyterLab: moved with the keyboard, its readout against the library."""

import pytest

from course_lib.explorers.all_reduce_costs import Choice, readout
from tests.browser.explorer_page import control, picture, reached_by_tab, shown_rows, write_notebook
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
    write_notebook(folder, "explorer", CELL)
    return folder


@pytest.fixture(scope="module")
def opened(browser, server, keep_pictures):
    with open_notebook(browser, server, "explorer.ipynb") as opened:
        opened.run_all()
        picture(opened).wait_for()
        yield opened
        keep_pictures(opened, "all_reduce_costs")


def assert_numbers(opened, choice):
    """The readout's table as it is seen is the library's."""
    rows = [list(row) for row in readout(choice).rows]
    opened.page.get_by_text(readout(choice).notes[1]).wait_for(timeout=30_000)
    assert shown_rows(opened) == rows


def test_it_shows_a_picture_and_the_librarys_numbers(opened):
    assert picture(opened).count() == 1
    assert picture(opened).evaluate("image => image.naturalWidth") == 740
    assert_numbers(opened, START)


def test_keys_move_a_slider_and_picture_and_numbers_follow(opened, request):
    keys = 30 * ["ArrowRight", "ArrowLeft"] + ["ArrowRight"]
    waits = press(opened.page, control(opened, "tensor"), picture(opened), keys)
    request.node.user_properties.append(("measured", f"all-reduce costs, {waits}"))
    assert picture(opened).count() == 1
    assert_numbers(opened, Choice(4, 2**24, 5e-4, 50e6))
    press(opened.page, control(opened, "tensor"), picture(opened), ["ArrowLeft"])


@pytest.mark.parametrize(("key", "ranks"), [("End", 4096), ("Home", 2)])
def test_home_and_end_reach_the_ends(opened, key, ranks):
    press(opened.page, control(opened, "ranks N"), picture(opened), [key])
    assert_numbers(opened, Choice(ranks, 2**23, 5e-4, 50e6))


def test_all_sliders_can_be_reached_by_the_tab_key(opened):
    reached = reached_by_tab(opened, "ranks N", 8)
    assert reached[:4] == ["ranks N", "tensor", "latency", "bandwidth"]


def test_nothing_pops_up_and_the_console_stays_clean(opened):
    assert opened.dialogs() == []
    assert opened.errors == []
