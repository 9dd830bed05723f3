"""The map of where data parallelism loses: its cells are the library's, and names stand where they belong."""

from dataclasses import fields, replace
from math import log10

import numpy as np
import pytest
from matplotlib.collections import LineCollection, QuadMesh

from course_lib import noise_scale
from course_lib.activations import model_bytes
from course_lib.cost_model import all_reduce_seconds
from course_lib.explorers import data_parallel_map, published_runs
from course_lib.explorers.data_parallel_map import Choice, Drawing, readout
from course_lib.explorers.fast_canvas import FastCanvas
from course_lib.explorers.gpt_layers import gpt_layers
from course_lib.explorers.map_grid import (
    CARDS,
    COLUMNS,
    PARAMETERS,
    RANKS,
    REGIONS,
    WALL,
    Setting,
    grid,
    model_near,
    shape,
    spot,
)
from course_lib.hardware import ACCELERATORS
from course_lib.memory import model_state
from course_lib.simulator import LEFT_OUT, simulate_step
from course_lib.utilization import utilization
from tests.explorers.controls import stops
from tests.explorers.pictures import assert_nothing_else_is_imported, assert_same_pixels
from tests.explorers.sheets import assert_readable, text_boxes

FAST = Choice(card="b200", bandwidth=900e9, latency=0.0, tokens=32768, micro_batches=8, loss=2.0)
SLOW = Choice(card="v100-32gb", bandwidth=125e6, latency=1e-3, tokens=2048, loss=4.0, ranks=4096)
ETHERNET = Choice(bandwidth=1.25e9, latency=5e-5, tokens=65536, micro_batches=16, parameters=PARAMETERS[-1])
FULL = Choice(card="t4", tokens=131072, micro_batches=64, ranks=1)  # no model fits
CHOICES = [Choice(), FAST, SLOW, ETHERNET, FULL]


# --- the numbers ---


def test_models_have_gpt_3s_proportions_and_cover_the_map():
    assert shape(96).hidden == 12288 and shape(96).heads == 96
    assert shape(96).parameters == pytest.approx(174.6e9, rel=1e-3)
    assert 5e7 < PARAMETERS[0] < 1e8 and 1.9e12 < PARAMETERS[-1] < 2e12
    assert model_near(PARAMETERS[20] * 1.01).config.parameters == PARAMETERS[20]
    assert COLUMNS == sorted(set(COLUMNS)) and len(COLUMNS) > 50


@pytest.mark.parametrize("choice", CHOICES)
def test_a_place_is_what_the_librarys_functions_say(choice):
    here, config = choice.spot, model_near(choice.parameters).config
    sequences, card = choice.tokens // 2048, ACCELERATORS[choice.card]
    peak = card.bf16_flops or card.fp16_flops
    step = simulate_step(
        gpt_layers(config, sequences, 2048, 0.5 * peak, 2),
        lambda size: all_reduce_seconds("ring", size, choice.ranks, choice.latency, choice.bandwidth),
        micro_batches=choice.micro_batches, optimizer_seconds=28 * config.parameters / card.bandwidth,
    )  # fmt: skip
    assert here.step.seconds == pytest.approx(step.seconds)
    tokens = choice.ranks * choice.micro_batches * choice.tokens
    assert here.utilization == pytest.approx(
        utilization(tokens / step.seconds, config.flops_per_token(2048), choice.ranks, peak))
    assert here.memory == (
        model_state(config.parameters).total + model_bytes(config, sequences, 2048, attention="fused"))
    assert here.batch == tokens
    assert choice.examples(choice.ranks) == noise_scale.tradeoff(
        tokens, noise_scale.critical_batch_tokens(choice.loss))[1]  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES)
def test_the_grid_is_made_of_places(choice):
    cells = grid(choice.setting)
    for row in range(0, len(RANKS), 9):
        for column in range(0, len(COLUMNS), 6):
            here = spot(choice.setting, COLUMNS[column], RANKS[row])
            assert REGIONS[cells.region[row, column]] == here.region
            if here.region == WALL:
                assert np.isnan(cells.utilization[row, column])
            else:
                assert cells.utilization[row, column] == pytest.approx(here.utilization)


def test_more_ranks_never_raise_the_utilization_and_no_link_takes_the_wall_away():
    for choice in CHOICES:
        cells = grid(choice.setting)
        falling = np.diff(cells.utilization, axis=0)
        assert (falling[~np.isnan(falling)] <= 1e-12).all()
        assert (cells.region == REGIONS.index(WALL)).any()
        walls = cells.region == REGIONS.index(WALL)
        assert (walls == walls[0]).all()  # whatever N is


@pytest.mark.parametrize("changed, region", [
    ({"ranks": 1}, "communication hides"),
    ({"bandwidth": 1.25e9, "latency": 0.0}, "bandwidth"),
    ({"bandwidth": 900e9, "latency": 1e-3}, "latency"),
    ({"parameters": 175 * 10**9}, "memory wall"),
])  # fmt: skip
def test_regions_are_where_they_should_be(changed, region):
    assert replace(Choice(), **changed).spot.region == region
    assert f"Here: {'the ' * (region == WALL)}{region}." in readout(replace(Choice(), **changed)).notes[0]


def test_two_halves_of_the_batch_meet_at_the_critical_one():
    setting = Setting()
    assert setting.examples(1) < 2 < setting.examples(4096)
    assert setting.critical_ranks * setting.step_tokens == pytest.approx(setting.critical_batch)


def test_only_runs_of_data_parallelism_alone_had_to_fit():
    cards = {"V100 32 GB": "v100-32gb", "A100": "a100-80gb"}
    for run in published_runs.RUNS:
        if run.kind == published_runs.ALONE:
            assert model_state(round(run.parameters)).total < ACCELERATORS[cards[run.card]].memory_bytes
        assert run.gpus % run.ranks == 0
        assert (run.gpus == run.ranks) == (run.kind != published_runs.DIVIDED)


# --- the picture ---


def test_the_colors_are_the_grid_and_the_lines_between_regions():
    axes = data_parallel_map.figure(Choice()).axes[1]
    (mesh,) = [each for each in axes.collections if isinstance(each, QuadMesh)]
    cells = grid(Choice().setting)
    drawn = np.ma.filled(mesh.get_array(), np.nan).reshape(cells.utilization.shape)
    assert np.array_equal(drawn, cells.utilization, equal_nan=True)
    (borders,) = [each for each in axes.collections if isinstance(each, LineCollection)]
    changes = [np.count_nonzero(np.diff(cells.region, axis=axis)) for axis in (0, 1)]
    assert len(borders.get_segments()) == sum(changes) > 50


@pytest.mark.parametrize("choice", CHOICES)
def test_names_stand_in_their_regions_and_away_from_marks(choice):
    cells, setting = grid(choice.setting), choice.setting
    here = log10(choice.spot.parameters), log10(choice.ranks)
    names = list(data_parallel_map._names(cells, setting, here))
    sizes = {name: (cells.region == index).mean() for index, name in enumerate(REGIONS)}
    for name, share in sizes.items():
        assert share < 0.1 or any(text.startswith((name, name.split()[-1])) for text, _, _ in names), name
    columns = [data_parallel_map._across(x) for x in data_parallel_map._X_EDGES]
    rows = [data_parallel_map._down(y) for y in data_parallel_map._Y_EDGES]
    for text, x, y in names:
        if "critical" in text:
            assert y < data_parallel_map._down(log10(setting.critical_ranks))
            continue
        column, row = np.searchsorted(columns, x) - 1, np.searchsorted(-np.array(rows), -y) - 1
        assert REGIONS[cells.region[row, column]].split()[-1] in text
        for run in published_runs.RUNS:
            across, down = data_parallel_map._place(run)
            assert abs(x - across) > 0.3 or abs(y - down) > 0.15, (text, run)


def test_the_critical_batch_is_named_where_it_is_on_the_map():
    def named(choice):
        cells = grid(choice.setting)
        return any("critical" in text for text, _, _ in data_parallel_map._names(
            cells, choice.setting, (9.0, 1.0)))  # fmt: skip

    assert named(Choice()) and not named(replace(Choice(), tokens=2048, loss=2.0))


@pytest.mark.parametrize("choice", CHOICES)
def test_texts_stay_on_the_picture_and_do_not_collide(choice):
    figure = data_parallel_map.figure(choice)
    assert_readable(figure, figure.axes[0])
    assert len(text_boxes(figure.axes[0])) >= len(published_runs.RUNS) + 7


def test_what_is_left_out_stands_beside_each_picture():
    assert all(part in readout(Choice()).notes[-1] for part in LEFT_OUT)


@pytest.fixture(scope="module")
def fast():
    drawing = Drawing()
    return drawing, FastCanvas(drawing.figure, drawing.changing)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_fast_picture_is_the_full_one(fast, choice):
    assert_same_pixels(fast, choice, data_parallel_map.figure(choice))


def test_making_a_figure_changes_nothing_else():
    assert_nothing_else_is_imported(
        "from course_lib.explorers.data_parallel_map import Choice, figure\nfigure(Choice())"
    )


# --- numbers, words and sliders ---


def test_the_readout_is_the_place():
    rows, here = dict(readout(Choice()).rows), Choice().spot
    assert rows["U"] == f"{here.utilization:.1%}"
    assert rows["step"] == data_parallel_map.duration(here.step.seconds)
    assert rows["memory of H100 SXM"] == "85.52 GB"
    assert rows["ranks N"] == "32"


@pytest.mark.parametrize("wrong, sentence", [
    ({"card": "a10"}, f"card='a10': expected one of {', '.join(map(repr, CARDS))}"),
    ({"bandwidth": 0}, "bandwidth=0: expected a number above 0"),
    ({"latency": -1}, "latency=-1: expected a number, 0 or more"),
    ({"tokens": 3000}, "tokens=3000: expected a multiple of 2,048, 131,072 at most"),
    ({"micro_batches": 65}, "micro_batches=65: expected a number, 1 or more, 64 at most"),
    ({"loss": 1}, "loss=1: expected a number, 2 or more, 6 at most"),
    ({"parameters": 10}, "parameters=10: expected a number, 100000000 or more, 2000000000000 at most"),
    ({"ranks": 4097}, "ranks=4097: expected a number, 1 or more, 4096 at most"),
])  # fmt: skip
def test_a_wrong_choice_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError) as caught:
        Choice(**wrong)
    assert str(caught.value).startswith(sentence)


@pytest.fixture(scope="module")
def explorer():
    return data_parallel_map.explorer()


@pytest.mark.parametrize("name", [field.name for field in fields(Choice)])
def test_each_stop_of_each_slider_can_be_shown(explorer, controls, name):
    for value in stops(controls[name]):
        controls[name].value = value
        assert getattr(explorer.choice, name) == value
        assert f">{data_parallel_map.duration(explorer.choice.spot.step.seconds)}<" in explorer.numbers.value


def test_the_explorer_begins_anywhere_and_says_the_same_without_a_widget():
    start = replace(SLOW, parameters=123_456_789, bandwidth=2e9)
    explorer = data_parallel_map.explorer(start)
    assert explorer.choice == start
    assert explorer._repr_mimebundle_()[0]["text/plain"] == readout(start).text()
