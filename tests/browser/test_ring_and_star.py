"""The explorers of lessons 02 and 03 in JupyterLab, in a narrow window: moved with the keyboard."""

import pytest

from course_lib.explorers import ring_steps, star_link
from tests.browser.explorer_page import (
    NARROW,
    assert_fits,
    control,
    open_narrow,
    picture,
    shown_rows,
    write_notebook,
)
from tools.slider_to_picture import press

pytestmark = [pytest.mark.browser, pytest.mark.long]

CELLS = {
    "ring_steps": "from course_lib.explorers import ring_steps\nring_steps.explorer()",
    "star_link": """\
from course_lib.explorers import star_link
points = [(n, 2 * (n - 1) * 8388608 / 50e6, "s", "root, 8 MiB, 400 Mbit/s links") for n in (2, 4, 8)]
star_link.explorer(points)""",
}


@pytest.fixture(scope="module")
def my_course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    for name, code in CELLS.items():
        write_notebook(folder, name, code)
    return folder


@pytest.fixture(scope="module", params=CELLS)
def opened(request, browser, server, keep_pictures):
    with open_narrow(browser, server, keep_pictures, request.param) as opened:
        yield opened


def first_choice(opened):
    return ring_steps.Choice() if opened.name == "ring_steps" else star_link.Choice()


def readout(choice):
    module = ring_steps if isinstance(choice, ring_steps.Choice) else star_link
    return module.readout(choice)


def test_picture_and_numbers_fit_a_narrow_window(opened):
    assert picture(opened).count() == 1
    assert_fits(opened)
    assert shown_rows(opened) == list(map(list, readout(first_choice(opened)).rows))


def test_keys_move_the_sliders_and_picture_and_numbers_follow(opened, request):
    if opened.name == "ring_steps":
        name, keys, choice = "step", 6 * ["ArrowRight"] + 5 * ["ArrowLeft"], ring_steps.Choice(4, 1)
    else:
        name, keys, choice = "ranks N", 14 * ["ArrowRight"] + 10 * ["ArrowLeft"], star_link.Choice(8)
    waits = press(opened.page, control(opened, name), picture(opened), keys)
    request.node.user_properties.append(("measured", f"{opened.name}, {waits}"))
    opened.page.get_by_text(readout(choice).notes[0]).wait_for(timeout=30_000)
    assert shown_rows(opened) == list(map(list, readout(choice).rows))
    assert picture(opened).count() == 1


def test_the_last_step_of_the_most_ranks_can_be_reached_and_the_most_ranks_of_a_star(opened):
    press(opened.page, control(opened, "ranks N"), picture(opened), ["End"])
    if opened.name == "star_link":
        opened.page.get_by_text("1,024 ranks").wait_for(timeout=30_000)
        return
    # Not by End: that key goes where the slider ended when the page was drawn.
    press(opened.page, control(opened, "step"), picture(opened), 13 * ["ArrowRight"])
    opened.page.get_by_text("Step 14 of 14").wait_for(timeout=30_000)
    table = opened.page.locator(".widget-html table").bounding_box()
    assert table["x"] + table["width"] <= NARROW
    press(opened.page, control(opened, "ranks N"), picture(opened), ["Home"])
    opened.page.get_by_text("Step 2 of 2").wait_for(timeout=30_000)


def test_nothing_pops_up_and_the_console_stays_clean(opened):
    assert opened.dialogs() == []
    assert opened.errors == []
