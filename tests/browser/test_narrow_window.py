"""The explorers of lessons 06 to 08 in JupyterLab, in a narrow window: moved with the keyboard."""

import pytest

from course_lib.explorers import buckets, cluster, data_parallel_map, overlap, streams
from tests.browser.explorer_page import assert_fits, control, open_narrow, picture, shown_rows, write_notebook
from tools.slider_to_picture import press

pytestmark = [pytest.mark.browser, pytest.mark.long]

MOVES = {  # a slider, what KEYS lead to, and the numbers beside it
    "buckets": ("layers", buckets.Choice(layers=14), buckets.readout),
    "overlap": ("ranks N", overlap.Choice(ranks=4), overlap.readout),
    "streams": ("lines that have run", streams.Choice(7), streams.readout),
    "cluster": ("ranks N", cluster.Choice(ranks=256), cluster.readout),
    "data_parallel_map": ("ranks N", data_parallel_map.Choice(ranks=128), data_parallel_map.readout),
}  # fmt: skip
RIGHT, LEFT = ["ArrowRight"], ["ArrowLeft"]
KEYS = {
    "buckets": 8 * RIGHT + 6 * LEFT,
    "overlap": 5 * RIGHT + 3 * LEFT,
    "streams": 8 * LEFT + 6 * RIGHT,
    "cluster": 4 * RIGHT + 4 * LEFT + 4 * RIGHT + 2 * LEFT,
    "data_parallel_map": 4 * RIGHT + 4 * LEFT + 4 * RIGHT + 2 * LEFT,
}


@pytest.fixture(scope="module")
def my_course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    for name in MOVES:
        write_notebook(folder, name, f"from course_lib.explorers import {name}\n{name}.explorer()")
    return folder


@pytest.fixture(scope="module", params=MOVES)
def opened(request, browser, server, keep_pictures):
    with open_narrow(browser, server, keep_pictures, request.param) as opened:
        yield opened


def test_picture_and_numbers_fit_a_narrow_window(opened):
    assert_fits(opened)


def test_keys_move_the_sliders_and_picture_and_numbers_follow(opened, request):
    slider, choice, readout = MOVES[opened.name]
    waits = press(opened.page, control(opened, slider), picture(opened), KEYS[opened.name])
    request.node.user_properties.append(("measured", f"{opened.name}, {waits}"))
    opened.page.get_by_text(readout(choice).notes[0]).wait_for(timeout=30_000)
    assert shown_rows(opened) == list(map(list, readout(choice).rows))


def test_a_box_that_is_ticked_off_shows_the_race(opened):
    if opened.name == "streams":
        opened.page.get_by_label("comm waits for the cast").uncheck()
        opened.page.get_by_text("Race: all-reduce may read the bucket before").wait_for(timeout=30_000)


def test_nothing_pops_up_and_the_console_stays_clean(opened):
    assert opened.dialogs() == []
    assert opened.errors == []
