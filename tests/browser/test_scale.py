"""The explorers of lesson 08 in JupyterLab, in a narrow window: moved with the keyboard."""

import pytest

from course_lib.explorers import cluster, data_parallel_map
from tests.browser.explorer_page import control, picture, shown_rows, write_notebook
from tools.lab_browser import open_notebook
from tools.slider_to_picture import press

pytestmark = [pytest.mark.browser, pytest.mark.long]

NARROW = 900  # pixels
MOVES = {  # a slider, what KEYS lead to, and the numbers beside it
    "cluster": ("ranks N", cluster.Choice(ranks=256), cluster.readout),
    "data_parallel_map": ("ranks N", data_parallel_map.Choice(ranks=128), data_parallel_map.readout),
}  # fmt: skip
RIGHT, LEFT = ["ArrowRight"], ["ArrowLeft"]
KEYS = 4 * RIGHT + 4 * LEFT + 4 * RIGHT + 2 * LEFT


@pytest.fixture(scope="module")
def my_course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    for name in MOVES:
        write_notebook(folder, name, f"from course_lib.explorers import {name}\n{name}.explorer()")
    return folder


@pytest.fixture(scope="module", params=MOVES)
def opened(request, browser, server, keep_pictures):
    with open_notebook(browser, server, f"{request.param}.ipynb", width=NARROW) as opened:
        opened.run_all()
        picture(opened).wait_for()
        opened.name = request.param
        yield opened
        keep_pictures(opened, request.param)


def test_picture_and_numbers_fit_a_narrow_window(opened):
    assert picture(opened).evaluate("image => image.naturalWidth") == 740
    for part in (picture(opened), opened.page.locator(".widget-html table")):
        box = part.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= NARROW


def test_keys_move_the_sliders_and_picture_and_numbers_follow(opened, request):
    slider, choice, readout = MOVES[opened.name]
    waits = press(opened.page, control(opened, slider), picture(opened), KEYS)
    request.node.user_properties.append(("measured", f"{opened.name}, {waits}"))
    opened.page.get_by_text(readout(choice).notes[0]).wait_for(timeout=30_000)
    assert shown_rows(opened) == list(map(list, readout(choice).rows))


def test_nothing_pops_up_and_the_console_stays_clean(opened):
    assert opened.dialogs() == []
    assert opened.errors == []
