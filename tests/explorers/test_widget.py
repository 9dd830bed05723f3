"""What all explorers share, tried with the smallest one: a bar and a slider."""

import threading

import ipywidgets as widgets
import pytest

from course_lib.explorers.fast_canvas import FastCanvas, layer_on_top
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
        self.figure.description = f"a bar of {choice}"


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


def test_its_picture_says_in_words_what_it_shows(explorer):
    """As its tooltip: ipywidgets gives an image no alt text."""
    assert explorer.picture.tooltip == "a bar of 3"
    slider(explorer).value = 7
    assert explorer.picture.tooltip == "a bar of 7"


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


# --- Two sliders, whose messages a kernel may handle in two threads ---

_LIMIT = 20  # seconds, after which a thread hangs


class TwoBars:
    """Calls ``between`` when the first bar is at its new height and the second one is not."""

    def __init__(self, between=lambda: None):
        self.figure = Picture(figsize=(2, 1), description="two bars")
        axes = self.figure.add_axes((0.2, 0.2, 0.7, 0.7))
        axes.set(xlim=(0, 3), ylim=(0, 10))
        self.changing = layer_on_top(axes.bar([1, 2], [0, 0]))
        self.between = between

    def show(self, heights):
        first, second = self.changing
        first.set_height(heights[0])
        self.between()
        second.set_height(heights[1])


def two_sliders(drawing):
    sliders = {"left": widgets.IntSlider(1, 0, 10), "right": widgets.IntSlider(1, 0, 10)}
    return Explorer(drawing, sliders, lambda left, right: (left, right), readout), *sliders.values()


def fresh(heights):
    drawing = TwoBars()
    canvas = FastCanvas(drawing.figure, drawing.changing)
    drawing.show(heights)
    return canvas.png()


def in_threads(*functions):
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LIMIT)
        assert not thread.is_alive(), "a thread hangs"


def test_a_move_while_another_is_drawn_leaves_no_old_piece_in_the_picture():
    """Without a lock other moves are drawn in the midst of the first, which then mixes with them."""
    halfway, others_drawn = threading.Event(), threading.Event()
    drawing = TwoBars()
    explorer, left, right = two_sliders(drawing)
    pictures = []
    explorer.picture.observe(lambda change: pictures.append(bytes(change["new"])), "value")

    def wait():
        if not halfway.is_set():
            halfway.set()
            others_drawn.wait(0.5)

    def move_both():
        assert halfway.wait(_LIMIT)
        right.value = 9
        left.value = 8
        others_drawn.set()

    drawing.between = wait
    in_threads(lambda: setattr(left, "value", 5), move_both)
    assert {*pictures} <= {fresh(heights) for heights in ((5, 1), (5, 9), (8, 9))}
    assert pictures[-1] == fresh((8, 9))
    assert "it is (8, 9)" in explorer.numbers.value


def test_many_moves_in_two_threads_end_where_the_sliders_stand():
    explorer, left, right = two_sliders(TwoBars())

    def move(slider):
        for value in (*range(2, 11), 4) * 10:
            slider.value = value

    in_threads(lambda: move(left), lambda: move(right))
    assert explorer.picture.value == fresh((4, 4))
    assert "it is (4, 4)" in explorer.numbers.value


def test_a_control_that_moves_another_is_no_deadlock():
    explorer, left, right = two_sliders(TwoBars())
    left.observe(lambda change: setattr(right, "value", change["new"]), "value")
    right.observe(lambda change: setattr(left, "value", change["new"]), "value")
    in_threads(lambda: setattr(left, "value", 7))
    in_threads(lambda: setattr(left, "value", 3), lambda: setattr(right, "value", 8))
    assert explorer.picture.value == fresh((left.value, right.value))
    assert f"it is ({left.value}, {right.value})" in explorer.numbers.value


def test_a_control_that_is_moved_by_a_new_picture_has_the_last_word():
    explorer, left, right = two_sliders(TwoBars())
    explorer.picture.observe(lambda change: setattr(right, "value", left.value), "value")
    left.value = 6
    assert explorer.picture.value == fresh((6, 6))
    assert "it is (6, 6)" in explorer.numbers.value


def test_after_an_error_the_next_move_is_drawn_in_full():
    drawing = TwoBars()
    explorer, left, right = two_sliders(drawing)
    drawing.between = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        left.value = 5
    drawing.between = lambda: None
    right.value = 9
    assert explorer.picture.value == fresh((5, 9))
