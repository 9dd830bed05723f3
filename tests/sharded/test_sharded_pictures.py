import pytest
from matplotlib.colors import to_hex

from course_lib.memory import ModelState, model_state
from course_lib.palette import color_of
from course_lib.sharded_pictures import state_on_each_rank

PARAMETERS = 1000
MEASURED = {ranks: model_state(PARAMETERS, zero_stage=1, ranks=ranks) for ranks in (1, 2, 4)}


def bars(picture):
    [axes] = picture.axes
    return {container.get_label(): [(bar.get_y(), bar.get_height()) for bar in container]
            for container in axes.containers}  # fmt: skip


def test_bars_are_what_was_measured():
    found = bars(state_on_each_rank(MEASURED, PARAMETERS))
    assert found["weights, measured"] == [(0, 2)] * 3
    assert found["gradients, measured"] == [(2, 2)] * 3
    assert found["fp32 master weights, measured"] == [(4, 4), (4, 2), (4, 1)]
    assert found["optimizer state, measured"] == [(8, 8), (6, 4), (5, 2)]


def test_marks_are_the_formula_whatever_was_measured():
    picture = state_on_each_rank({2: ModelState(1, 2, 3, 4)}, PARAMETERS, also=(64,))
    assert bars(picture)["optimizer state, measured"] == [(0.006, 0.004)]
    [axes] = picture.axes
    [marks] = [line for line in axes.lines if line.get_label() == "formula: 4 + 12/N"]
    # Of 1000, the longest chunk has 16.
    assert marks.get_ydata().tolist() == [10, pytest.approx(4 + 12 * 16 / 1000)]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "64"]


def test_colors_are_those_of_all_lessons():
    [axes] = state_on_each_rank(MEASURED, PARAMETERS).axes
    colors = [to_hex(container[0].get_facecolor()).upper() for container in axes.containers]
    assert colors == [color_of(kind) for kind in ("weights", "gradients", "weights", "optimizer state")]


def test_texts_do_not_collide():
    picture = state_on_each_rank(MEASURED, PARAMETERS)
    picture.draw_without_rendering()
    [axes] = picture.axes
    boxes = [text.get_window_extent() for text in (*axes.texts, *axes.get_legend().get_texts())]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        assert box.x1 < picture.bbox.x1


@pytest.mark.parametrize(
    "arguments, part",
    [
        (({}, 10), "measured={}: expected at least one number of ranks"),
        (({0: MEASURED[1]}, 10), "ranks=0: expected a positive whole number"),
        ((MEASURED, 0), "parameters=0: expected a positive whole number"),
        ((MEASURED, 10, (2.5,)), "ranks=2.5: expected a positive whole number"),
    ],
)
def test_what_can_not_be_drawn_is_refused(arguments, part):
    with pytest.raises(ValueError) as caught:
        state_on_each_rank(*arguments)
    assert part in str(caught.value)
