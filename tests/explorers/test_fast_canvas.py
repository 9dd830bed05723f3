"""The fast picture is the full picture, as long as only the named artists change."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from course_lib.explorers.fast_canvas import FastCanvas, layer_on_top, log_axis, png


def plot(height):
    """A figure with a line and a bar over spines and grid, and the artists that change with ``height``."""
    figure = Figure(figsize=(3, 2))
    axes = figure.add_axes((0.2, 0.2, 0.7, 0.7))
    axes.set(xlim=(0, 2), ylim=(0, 4))
    axes.grid()
    artists = layer_on_top([*axes.bar([0], [1], width=1), *axes.plot([0, 2], [0, 1]), axes.text(1, 3, "")])
    move(artists, height)
    return figure, artists


def move(artists, height):
    bar, line, text = artists
    bar.set_height(height)
    line.set_ydata([0, height])
    text.set_text(f"{height:g}")


def full(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def test_each_fast_picture_is_the_full_one():
    figure, artists = plot(1)
    canvas = FastCanvas(figure, artists)
    for height in (1, 4, 0, 2.5):
        move(artists, height)
        assert (canvas.pixels() == full(plot(height)[0])).all()


def test_the_png_holds_the_same_pixels():
    canvas = FastCanvas(*plot(2))
    assert (np.asarray(Image.open(io.BytesIO(canvas.png()))) == full(plot(2)[0])).all()


def test_any_pixels_are_a_png():
    pixels = np.random.default_rng(1).integers(0, 256, (5, 3, 4), np.uint8)
    picture = Image.open(io.BytesIO(png(pixels)))
    assert (picture.format, picture.mode) == ("PNG", "RGBA")
    assert (np.asarray(picture) == pixels).all()


def test_saving_the_figure_in_between_changes_nothing():
    figure, artists = plot(1)
    canvas = FastCanvas(figure, artists)
    before = canvas.pixels().copy()
    saved = io.BytesIO()
    figure.savefig(saved, format="png", dpi=200)
    assert (canvas.pixels() == before).all()
    other = io.BytesIO()
    plot(1)[0].savefig(other, format="png", dpi=200)
    assert saved.getvalue() == other.getvalue()  # and what changes is in the saved one


def test_an_artist_that_is_not_named_does_not_move():
    """What the comparison above would notice."""
    figure, artists = plot(1)
    canvas = FastCanvas(figure, artists[1:])
    move(artists, 2)
    assert (canvas.pixels() != full(plot(2)[0])).any()


def test_a_layout_engine_is_refused():
    with pytest.raises(ValueError, match="expected axes at fixed places"):
        FastCanvas(Figure(layout="constrained"), [])


def test_a_logarithmic_axis_has_its_texts_where_the_values_are():
    axes = Figure().add_subplot()
    log_axis(axes.yaxis, 1, 1000, {1: "one", 100: "hundred"})
    assert axes.get_ylim() == (0, 3)
    assert [(tick.get_position()[1], tick.get_text()) for tick in axes.get_yticklabels()] == [
        (0, "one"),
        (2, "hundred"),
    ]
    assert axes.get_xlim() == (0, 1)  # the other axis is left alone
