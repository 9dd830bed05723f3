"""The explorer of two CUDA streams: what it shows is what the rules of streams say."""

from dataclasses import fields
from itertools import product

import pytest
from matplotlib.colors import to_hex

from course_lib.explorers import streams
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.streams import LINES, Choice, Drawing, commands, program, readout, runs
from course_lib.streams import races
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels
from tests.explorers.sheets import assert_readable, bars, line_through

WRONG = Choice(LINES, False, False, False)
MANY = [Choice(line, *others) for line in (0, 3, 7, LINES) for others in product([True, False], repeat=3)]


def racing(choice):
    return {(race.first.name, race.second.name) for race in races(commands(choice))}


def drawn(choice):
    """The artists by name, and the axes."""
    drawing = Drawing()
    drawing.show(choice)
    names = ("bars", "bar texts", "frames", "ready", "done", "events", "veils", "marks", "verdict")
    return dict(zip(names, drawing.changing, strict=True)), drawing.figure.axes[0]


# --- what races ---


def test_with_all_lines_nothing_races_and_the_next_layer_runs_beside_the_reduction():
    by_name = {run.operation.name: run for run in runs(Choice())}
    assert racing(Choice()) == set()
    assert by_name["next layer"].start < by_name["all-reduce"].end <= by_name["copy"].start
    assert by_name["optimizer"].start == by_name["copy"].end


@pytest.mark.parametrize("left_out, expected", [
    ("wait_ready", {("cast", "all-reduce"), ("cast", "copy")}),
    ("record", {("all-reduce", "next layer"), ("copy", "next layer")}),
    ("wait_done", {("copy", "optimizer")}),
])  # fmt: skip
def test_each_line_that_is_left_out_lets_something_race(left_out, expected):
    choice = Choice(**{left_out: False})
    assert racing(choice) == expected
    by_name = {run.operation.name: run for run in runs(choice)}
    first, second = next(iter(sorted(expected)))
    assert by_name[second].start < by_name[first].end  # here it is seen, too


def test_a_race_is_there_when_its_second_operation_is_launched():
    assert [bool(racing(Choice(line, wait_done=False))) for line in (8, LINES)] == [False, True]
    assert [bool(racing(Choice(line, record=False))) for line in (6, 7)] == [False, True]


def test_sentences_say_who_does_what_to_what():
    assert readout(WRONG).notes[:6] == [
        "Race: all-reduce may read the bucket before cast has written it, or half of it.",
        "Race: copy may read the bucket before cast has written it, or half of it.",
        "Race: copy may write into the gradient while cast still needs it.",
        "Race: next layer may write into memory that was the bucket's while all-reduce still needs it.",
        "Race: next layer may write into memory that was the bucket's while copy still needs it.",
        "Race: optimizer may read the gradient before copy has written it, or half of it.",
    ]
    assert streams.verdict(WRONG) == readout(WRONG).notes[0] + " And 5 more."
    assert (streams.verdict(Choice()), streams.verdict(Choice(3))) == ("No race.", "No race so far.")
    assert readout(Choice()).notes[1].startswith("Computed by the rules of CUDA streams, not run on a GPU.")


def test_the_readout_has_a_row_for_each_operation():
    assert readout(Choice(0)).rows == [("", "stream", "reads", "writes", "starts", "ends")]
    assert readout(Choice()).rows[1:] == [
        ("cast", "main", "gradient", "bucket", "8 µs", "58 µs"),
        ("all-reduce", "comm", "bucket", "bucket", "58 µs", "148 µs"),
        ("copy", "comm", "bucket", "gradient", "148 µs", "178 µs"),
        ("next layer", "main", "–", "other memory", "58 µs", "118 µs"),
        ("optimizer", "main", "gradient", "–", "178 µs", "228 µs"),
    ]


@pytest.mark.parametrize("wrong, sentence", [
    ({"line": 10}, "line=10: expected a number, 0 or more, 9 at most"),
    ({"record": 1}, "record=1: expected True or False"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value) == sentence


# --- the picture ---


@pytest.mark.parametrize("choice", [Choice(), WRONG, Choice(4), Choice(7, record=False)])
def test_bars_are_the_runs_and_frames_are_the_races(choice):
    artists, axes = drawn(choice)
    found = [bar for bar in bars(axes, artists["bars"])]
    if found:
        times = [moment for run in runs(choice) for moment in run[1:]]
        line_through(zip(times, [place for bar in found for place in bar[1:3]], strict=True))
    framed = {round(path.vertices[:, 0].min(), 6) for path in artists["frames"].get_paths()}
    names = {name for pair in racing(choice) for name in pair}
    assert framed == {round(left, 6) for (_, left, _, _), run in zip(found, runs(choice), strict=True)
                      if run.operation.name in names}  # fmt: skip
    assert to_hex(artists["frames"].get_edgecolor()[0]) == "#000000"


@pytest.mark.parametrize("choice", [Choice(), Choice(3), WRONG, Choice(6, record=False)])
def test_lines_that_have_not_run_are_veiled(choice):
    artists, axes = drawn(choice)
    texts = [text for text in axes.texts if text.get_family() == ["monospace"]]
    assert [text.get_text() for text in texts] == [line.text for line in program(choice)]
    veiled = [text.get_text() for text in texts for path in artists["veils"].get_paths()
              if path.vertices[:, 1].min() < text.get_position()[1] < path.vertices[:, 1].max()]  # fmt: skip
    assert veiled == [line.text for place, line in enumerate(program(choice))
                      if place >= choice.line or not line.is_there]  # fmt: skip


def test_waits_are_drawn_where_there_are_some():
    for choice, expected in ((Choice(), (True, True)), (Choice(4), (True, False)), (WRONG, (False, False))):
        artists, _ = drawn(choice)
        assert (artists["ready"].get_visible(), artists["done"].get_visible()) == expected
    artists, _ = drawn(Choice())
    assert [len(set(artists[name].get_xdata())) for name in ("ready", "done")] == [1, 1]


@pytest.mark.parametrize("choice", [Choice(), Choice(0), WRONG, Choice(record=False)])
def test_texts_stay_on_the_picture_and_do_not_collide(choice):
    figure = streams.figure(choice)
    assert_readable(figure, figure.axes[0])


def test_the_fast_picture_is_the_full_one():
    drawing = Drawing()
    canvas = FastCanvas(drawing.figure, drawing.changing)
    for choice in (Choice(), Choice(0), WRONG, Choice(5, record=False)):
        assert_same_pixels((drawing, canvas), choice, streams.figure(choice))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.streams import Choice, figure\nfigure(Choice())"
    )


# --- the controls ---


@pytest.fixture(scope="module")
def explorer():
    return streams.explorer()


def test_each_control_can_be_moved(explorer, controls):
    for choice in MANY:
        for field in fields(Choice):
            controls[field.name].value = getattr(choice, field.name)
        assert explorer.choice == choice
        assert readout(choice).notes[0] in explorer.numbers.value


def test_a_stored_notebook_keeps_the_numbers():
    explorer = streams.explorer(WRONG)
    assert explorer.choice == WRONG
    assert explorer._repr_mimebundle_()[0]["text/plain"] == readout(WRONG).text()
    assert streams.figure(WRONG).description.endswith(streams.verdict(WRONG))
