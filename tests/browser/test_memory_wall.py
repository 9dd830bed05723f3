"""The explorer of lesson 01 in JupyterLab: moved with the keyboard, its readout against the library."""

import pytest

from course_lib.explorers.memory_wall import BY_PARAMETERS, Choice, need, readout
from course_lib.transformer import CONFIGS
from tests.browser.explorer_page import control, picture, reached_by_tab, shown_rows, write_notebook
from tools.lab_browser import open_notebook
from tools.slider_to_picture import press

pytestmark = pytest.mark.browser

CELL = """\
from course_lib.explorers.memory_wall import explorer
explorer([(124_439_808, 2_300_000_000, "GPT-2 small, measured")])"""

NEXT = 7_080_000_000  # the slider's stop after Llama-2-7B


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
        keep_pictures(opened, "memory_wall")


def shown_numbers(opened):
    """Row name -> the texts beside it."""
    return {first: others for first, *others in shown_rows(opened)}


def wait_for_parameters(opened, parameters):
    opened.page.get_by_text(f"{parameters:,} parameters").wait_for(timeout=30_000)


def library_numbers(choice):
    return {first: list(others) for first, *others in readout(choice).rows}


def test_it_shows_a_picture_and_the_librarys_numbers(opened):
    assert picture(opened).count() == 1
    assert picture(opened).evaluate("image => image.naturalWidth") == 740
    assert shown_numbers(opened) == library_numbers(Choice())
    assert shown_numbers(opened)["in bytes"] == 2 * [f"{need(Choice())[0].total:,}"]


def test_keys_move_p_and_picture_and_numbers_follow(opened, request):
    slider = control(opened, "parameters P")
    waits = press(opened.page, slider, picture(opened), 12 * ["ArrowRight"] + 11 * ["ArrowLeft"])
    request.node.user_properties.append(("measured", f"memory wall, {waits}"))
    assert picture(opened).count() == 1
    assert slider.count() == 1
    wait_for_parameters(opened, NEXT)
    assert shown_numbers(opened) == library_numbers(Choice(NEXT, BY_PARAMETERS))


@pytest.mark.parametrize("key, parameters", [("End", 10**13), ("Home", 10**7)])
def test_home_and_end_reach_the_ends(opened, key, parameters):
    slider = control(opened, "parameters P")
    press(opened.page, slider, picture(opened), [key])
    wait_for_parameters(opened, parameters)
    assert shown_numbers(opened) == library_numbers(Choice(parameters, BY_PARAMETERS))


def test_a_known_shape_is_chosen_from_the_menu_by_keys(opened):
    press(opened.page, control(opened, "shape"), picture(opened), ["End"])
    shape = list(CONFIGS)[-1]
    wait_for_parameters(opened, CONFIGS[shape].parameters)
    assert shown_numbers(opened) == library_numbers(Choice(CONFIGS[shape].parameters, shape))


def test_a_menu_opens_with_the_space_bar(opened):
    """JupyterLab takes the arrow keys for itself while a menu is closed."""
    menu = control(opened, "card")
    before = menu.input_value()
    menu.focus()
    for key in ("Space", "ArrowDown", "Enter"):
        opened.page.keyboard.press(key)
    moved = "([menu, before]) => menu.value !== before"
    opened.page.wait_for_function(moved, arg=[menu.element_handle(), before])


def test_all_controls_can_be_reached_by_the_tab_key(opened):
    reached = reached_by_tab(opened, "parameters P", 20)
    assert reached[:9] == ["parameters P", "shape", "recipe", "card", "micro-batch b",
                                 "sequence (tokens)", "recompute", "outlook: ZeRO stage",
                                 "outlook: GPUs N"]  # fmt: skip


def test_nothing_pops_up_and_the_console_stays_clean(opened):
    assert opened.dialogs() == []
    assert opened.errors == []
