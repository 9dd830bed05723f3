"""Loss curves show the numbers that they were given, and say where a run left the picture."""

import math

import pytest

from course_lib.training_pictures import loss_curves

RIGHT = [0.5, 0.3, 0.2, 0.1]
LOSS = "loss (nats)"


def shown(figure):
    """Each line's label with its points, in the order of drawing."""
    return {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in figure.axes[0].lines}


def test_all_curves_are_drawn_step_by_step():
    figure = loss_curves({"one": RIGHT, "four": RIGHT[::-1]}, "Measured here", LOSS)
    assert shown(figure) == {
        "one": [(1, 0.5), (2, 0.3), (3, 0.2), (4, 0.1)],
        "four": [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.5)],
    }


@pytest.mark.parametrize("high", [1e6, math.inf, math.nan, 0.0])
def test_what_can_not_be_drawn_leaves_the_picture_and_that_is_said(high):
    figure = loss_curves({"right": RIGHT, "broken": [0.5, 0.6, high, 0.4]}, "Measured here", LOSS)
    assert shown(figure)["broken (leaves at step 3)"] == [(1, 0.5), (2, 0.6)]
    figure.savefig("/dev/null", format="png")


def test_a_curve_may_leave_at_once():
    figure = loss_curves({"right": RIGHT, "broken": [1e9]}, "Measured here", LOSS)
    assert shown(figure)["broken (leaves at step 1)"] == []
    figure.savefig("/dev/null", format="png")


def test_long_curves_have_few_marks():
    long = [1 / step for step in range(1, 1000)]
    figure = loss_curves({"right": long, "also": long}, "Measured here", LOSS)
    assert [line.get_markevery() for line in figure.axes[0].lines] == [None, 34]


def test_the_picture_says_in_words_what_it_shows():
    figure = loss_curves({"right": RIGHT, "broken": RIGHT}, "Measured here", LOSS)
    assert figure.axes[0].get_ylabel() == LOSS
    assert figure.description == (
        "Measured here: loss (nats) over steps, on a logarithmic scale. As a line right, and as marks broken."
    )


@pytest.mark.parametrize("curves", [{}, {"right": []}, {"right": [0.5, 0.0]}, {"right": [0.5, math.nan]}])
def test_a_line_is_needed(curves):
    with pytest.raises(ValueError, match="curves"):
        loss_curves(curves, "Measured here", LOSS)


def test_too_many_curves_are_refused():
    with pytest.raises(ValueError, match="expected 1 to 5"):
        loss_curves(dict.fromkeys("abcdef", RIGHT), "Measured here", LOSS)
