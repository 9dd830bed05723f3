"""The explorer of lesson 05 in JupyterLab: moved with the keyboard, its readout against the library."""

import pytest

from course_lib.explorers.batch_size import Choice, figure, readout
from tests.browser.explorer_page import control, picture, shown_rows, write_notebook
from tools.lab_browser import open_notebook
from tools.slider_to_picture import press

pytestmark = [pytest.mark.browser, pytest.mark.long]

CELL = """\
from course_lib.explorers.batch_size import explorer
explorer([(1, 514_000_000), (4, 2_050_000_000)])"""


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
        keep_pictures(opened, "batch_size")


def assert_numbers(opened, choice):
    """The readout's table as it is seen is the library's."""
    rows = [list(row) for row in readout(choice).rows]
    opened.page.get_by_text(readout(choice).notes[0]).wait_for(timeout=30_000)
    assert shown_rows(opened) == rows


def test_it_shows_a_picture_and_the_librarys_numbers(opened):
    assert picture(opened).count() == 1
    assert picture(opened).evaluate("image => image.naturalWidth") == 740
    assert picture(opened).get_attribute("title") == figure(Choice()).description
    assert_numbers(opened, Choice())


def test_keys_move_a_slider_and_picture_and_numbers_follow(opened, request):
    keys = 30 * ["ArrowRight", "ArrowLeft"] + ["ArrowRight"]
    waits = press(opened.page, control(opened, "micro-batches K"), picture(opened), keys)
    request.node.user_properties.append(("measured", f"batch size, {waits}"))
    assert picture(opened).count() == 1
    assert_numbers(opened, Choice(micro_batches=6))
    press(opened.page, control(opened, "micro-batches K"), picture(opened), ["ArrowLeft"])


@pytest.mark.parametrize(("key", "ranks"), [("End", 256), ("Home", 1)])
def test_home_and_end_reach_the_ends(opened, key, ranks):
    press(opened.page, control(opened, "ranks N"), picture(opened), [key])
    assert_numbers(opened, Choice(ranks))


def test_nothing_pops_up_and_the_console_stays_clean(opened):
    assert opened.dialogs() == []
    assert opened.errors == []
