"""What all explorers share, tried with the smallest one: a bar and a slider."""

import ipywidgets as widgets
import pytest

from course_lib.explorers.fast_canvas import layer_on_top
from course_lib.explorers.widget import Explorer, Readout
from course_lib.pictures import Picture


class Bar:
    def __init__(self):
        self.figure = Picture(figsize=(2, 1), description="a bar")
        axes = self.figure.add_axes((0.2, 0.2, 0.7, 0.7))
        axes.set(xlim=(0, 1), ylim=(0, 10))
        self.changing = layer_on_top(axes.bar([0.5], [0]))
        self.shown = []

    def show(self, choice):
        self.shown.append(choice)
        self.changing[0].set_height(choice)


@pytest.fixture
def bar():
    return Bar()


@pytest.fixture
def explorer(bar):
    slider = widgets.IntSlider(3, 0, 10)
    return Explorer(bar, {"height": slider}, lambda height: height, readout)


def readout(height):
    return Readout([("", "height"), ("a <bar>", f"{height}")], [f"it is {height}"])


def slider(explorer):
    return explorer.children[0].children[0]


def test_it_begins_with_where_the_slider_stands(explorer, bar):
    assert bar.shown == [3]
    assert bytes(explorer.picture.value).startswith(b"\x89PNG")
    assert "it is 3" in explorer.numbers.value


def test_a_move_changes_picture_and_numbers_in_place(explorer):
    before, children = explorer.picture.value, explorer.children
    slider(explorer).value = 7
    assert explorer.picture.value != before
    assert "it is 7" in explorer.numbers.value
    assert explorer.children is children and len(children[1].children) == 2
    slider(explorer).value = 3
    assert explorer.picture.value == before


def test_what_is_shown_already_is_not_drawn_again(explorer, bar):
    explorer.update()
    assert bar.shown == [3]


def test_without_a_live_widget_there_are_the_picture_and_the_numbers(explorer, bar):
    slider(explorer).value = 4
    data, metadata = explorer._repr_mimebundle_()
    assert data["image/png"] == bar.figure._repr_mimebundle_()[0]["image/png"]
    assert data["text/plain"] == "         height\na <bar>       4\nit is 4"
    assert metadata["image/png"] == {"alt": data["text/plain"], "width": 200, "height": 100}
    assert "application/vnd.jupyter.widget-view+json" in data


def test_its_own_picture_size_on_the_page_is_the_figures(explorer):
    assert explorer.picture.layout.width == "200px"


def test_numbers_are_a_table_and_no_markup_of_theirs_gets_through(explorer):
    html = explorer.numbers.value
    assert html.count("<tr>") == 2 and html.count("<th") == 2
    assert "a &lt;bar&gt;" in html


def test_rows_of_different_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        Readout([("a", "b"), ("c",)]).text()
