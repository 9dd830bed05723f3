"""Model state: the papers' tables, exact integers, the inverse, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.memory import RECIPES, largest_model, model_state

GB = 10**9

BY_PIECE = {  # weights, gradients, master, optimizer
    "mixed-adam": (2, 2, 4, 8),
    "fp32-adam": (4, 4, 0, 8),
    "autocast-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 4, 8),
    "mixed-adam-fp32-grad-copy": (2, 6, 4, 8),
    "mixed-8bit-adam": (2, 2, 4, 2),
    "mixed-sgd-momentum": (2, 2, 4, 4),
    "bf16-adam": (2, 2, 0, 4),
}
TOTALS = {
    "mixed-adam": 16, "fp32-adam": 16, "autocast-adam": 16, "mixed-adam-fp32-grads": 18,
    "mixed-adam-fp32-grad-copy": 20, "mixed-8bit-adam": 10, "mixed-sgd-momentum": 12, "bf16-adam": 8,
}
any_recipe = st.sampled_from(sorted(RECIPES))
any_stage = st.integers(0, 3)


def pieces(state):
    return state.weights, state.gradients, state.master, state.optimizer


def test_there_are_the_recipes_of_the_table():
    assert set(RECIPES) == set(BY_PIECE) == set(TOTALS)
    assert all(recipe.description and recipe.source for recipe in RECIPES.values())


@pytest.mark.parametrize("name", BY_PIECE)
def test_bytes_per_parameter(name):
    state = model_state(1_000_003, name)
    assert pieces(state) == tuple(per_parameter * 1_000_003 for per_parameter in BY_PIECE[name])
    assert state.total == TOTALS[name] * 1_000_003
    assert RECIPES[name].total == TOTALS[name]


def test_seven_billion_parameters():
    assert model_state(7 * 10**9).total == 112 * GB
    assert model_state(6_738_415_616).total == 107_814_649_856


@pytest.mark.parametrize(("stage", "printed"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_figure_1(stage, printed):
    state = model_state(7_500_000_000, zero_stage=stage, ranks=64)
    assert state.total / GB == pytest.approx(printed, abs=0.05)


# ZeRO, Table 1, in GB for each device: (ranks, stage 1, stage 2, stage 3).
TABLE_1 = {
    7_500_000_000: [
        (1, 120, 120, 120), (4, 52.5, 41.3, 30),
        (16, 35.6, 21.6, 7.5), (64, 31.4, 16.6, 1.88), (256, 30.4, 15.4, 0.47),
        (1024, 30.1, 15.1, 0.12)],
    128 * GB: [
        (1, 2048, 2048, 2048), (4, 896, 704, 512), (16, 608, 368, 128), (64, 536, 284, 32),
        (256, 518, 263, 8), (1024, 513, 257, 2)],
    1000 * GB: [
        (1, 16000, 16000, 16000), (4, 7000, 5500, 4000), (16, 4750, 2875, 1000),
        (64, 4187, 2218, 250), (256, 4046, 2054, 62.5), (1024, 4011, 2013, 15.6)],
}


@pytest.mark.parametrize(("parameters", "ranks", "stage", "printed"), [
    (parameters, row[0], stage, row[stage])
    for parameters, rows in TABLE_1.items() for row in rows for stage in (1, 2, 3)])
def test_zero_table_1(parameters, ranks, stage, printed):
    exact = model_state(parameters, zero_stage=stage, ranks=ranks).total / GB
    # Small cells are rounded in the last digit that is printed; large ones are cut off, so 4187.5 is 4187.
    assert exact == pytest.approx(printed, abs=0.06 if printed < 100 else 1)


# ZeRO, Table 2, largest model for GPUs of 32 GB, in 1e9 parameters: (model parallel, GPUs, stages 0 to 3).
TABLE_2 = [
    (1, 64, 2, 7.6, 14.4, 128), (2, 128, 4, 15.2, 28.8, 256), (4, 256, 8, 30.4, 57.6, 500),
    (8, 512, 16, 60.8, 115.2, 1000), (16, 1024, 32, 121.6, 230.4, 2000)]


@pytest.mark.parametrize("row", TABLE_2, ids=str)
def test_zero_table_2(row):
    model_parallel, gpus, *printed = row
    for stage, billions in enumerate(printed):
        largest = model_parallel * largest_model(32 * GB, zero_stage=stage, ranks=gpus // model_parallel)
        # The printed rows are multiples of 7.6 and 14.4, cut off; 0.5T stands for 512, 2T for 2,048.
        assert largest / GB == pytest.approx(billions, rel=0.03 if billions in (500, 1000, 2000) else 0.006)


@pytest.mark.parametrize(("recipe", "replicated", "sharded"), [
    ("mixed-adam-fp32-grads", 6, 12), ("mixed-adam-fp32-grad-copy", 4, 16), ("fp32-adam", 8, 8)])
def test_megatron_distributed_optimizer(recipe, replicated, sharded):
    for ranks in (1, 2, 8, 64):
        state = model_state(64_000_000, recipe, zero_stage=1, ranks=ranks)
        assert state.total == replicated * 64_000_000 + sharded * 64_000_000 // ranks


def test_zero_2_with_an_fp32_gradient_copy_is_what_deepspeed_counts():
    state = model_state(2_851_000_000, "mixed-adam-fp32-grad-copy", zero_stage=2, ranks=8)
    assert state.total == 2 * 2_851_000_000 + 18 * 2_851_000_000 // 8


def test_the_whole_model_in_one_piece_is_the_same_for_all_stages():
    for recipe in RECIPES:
        assert len({model_state(10**9 + 7, recipe, stage).total for stage in range(4)}) == 1


def test_ten_trillion_parameters_lose_no_byte():
    parameters = 10**13 + 1
    assert model_state(parameters).total == 160_000_000_000_016
    assert model_state(parameters, zero_stage=3, ranks=10).total == 16 * (10**12 + 1)
    assert largest_model(160_000_000_000_031) == parameters
    assert model_state(10**40 + 1).total == 16 * 10**40 + 16


def test_a_shard_has_whole_parameters():
    state = model_state(10, zero_stage=1, ranks=4)
    assert pieces(state) == (20, 20, 12, 24)  # 3 parameters on the fullest rank


@given(st.integers(0, 10**15), any_recipe, any_stage, st.integers(1, 5000))
def test_shards_hold_the_model_and_no_rank_a_parameter_too_many(parameters, recipe, stage, ranks):
    whole = model_state(parameters, recipe)
    state = model_state(parameters, recipe, stage, ranks)
    for piece, entire in zip(pieces(state), pieces(whole), strict=True):
        assert entire <= piece * ranks
        assert piece <= entire
    if stage == 3:
        assert state.total * ranks < whole.total + RECIPES[recipe].total * ranks


@given(st.integers(0, 10**18) | st.integers(0, 5000), any_recipe, any_stage, st.integers(1, 5000))
def test_largest_model_is_the_inverse(memory_bytes, recipe, stage, ranks):
    largest = largest_model(memory_bytes, recipe, stage, ranks)
    assert model_state(largest, recipe, stage, ranks).total <= memory_bytes
    assert model_state(largest + 1, recipe, stage, ranks).total > memory_bytes


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("recipe", RECIPES)
def test_largest_model_for_memories_of_a_few_parameters_and_for_very_large_ones(recipe, stage):
    for ranks in (1, 2, 3, 8, 1024):
        for memory in (*range(65), 81559 * 2**20, 10**13, 10**30 + 7):
            largest = largest_model(memory, recipe, stage, ranks)
            state = model_state(largest, recipe, stage, ranks)
            assert state.total <= memory < model_state(largest + 1, recipe, stage, ranks).total


def test_memory_below_one_parameter_holds_none():
    assert [largest_model(memory) for memory in (0, 1, 15, 16, 31, 32)] == [0, 0, 0, 1, 1, 2]


def test_only_the_optimizers_bytes_are_laid_to_who_counts_only_those():
    for name in ("mixed-8bit-adam", "mixed-sgd-momentum", "bf16-adam"):
        assert RECIPES[name].source.startswith("optimizer: ")
        assert RECIPES[name].source.endswith("; total counted here")


def test_gb_and_gib_differ_by_seven_percent():
    assert largest_model(80 * GB) == 5_000_000_000
    assert largest_model(80 * 2**30) == 5_368_709_120


def test_whole_floats_and_numpy_numbers_are_numbers():
    assert model_state(7.5e9) == model_state(7_500_000_000)
    assert model_state(np.int32(2 * 10**9)).total == 32 * GB  # would overflow in 32 bits
    assert type(model_state(np.int64(5)).total) is int
    assert largest_model(80e9) == largest_model(80 * GB)
    assert model_state(10, zero_stage=np.int64(3), ranks=np.int64(2)) == model_state(5)


REFUSED = {
    "parameters=-1: expected a whole number, 0 or more": {"parameters": -1},
    "parameters=1.5: expected a whole number, 0 or more": {"parameters": 1.5},
    "parameters=nan: expected a whole number, 0 or more": {"parameters": float("nan")},
    "parameters=inf: expected a whole number, 0 or more": {"parameters": float("inf")},
    "parameters=True: expected a whole number, 0 or more": {"parameters": True},
    "parameters='7B': expected a whole number, 0 or more": {"parameters": "7B"},
    "parameters=1e+23: expected a whole number, 0 or more; "
    "a float this large is not exact, so write it as an int": {"parameters": 1e23},
    "ranks=0: expected a positive whole number": {"ranks": 0},
    "ranks=2.5: expected a positive whole number": {"ranks": 2.5},
    "zero_stage=4: expected 0, 1, 2 or 3": {"zero_stage": 4},
    "zero_stage=True: expected 0, 1, 2 or 3": {"zero_stage": True},
    "zero_stage='1': expected 0, 1, 2 or 3": {"zero_stage": "1"},
    "zero_stage=array([1, 2]): expected 0, 1, 2 or 3": {"zero_stage": np.array([1, 2])},
    "zero_stage=np.True_: expected 0, 1, 2 or 3": {"zero_stage": np.True_},
}


@pytest.mark.parametrize(("sentence", "arguments"), REFUSED.items(), ids=REFUSED.keys())
def test_refused(sentence, arguments):
    with pytest.raises(ValueError) as refused:
        model_state(**{"parameters": 10, **arguments})
    assert str(refused.value) == sentence
    if "parameters" not in arguments:
        with pytest.raises(ValueError) as refused:
            largest_model(10, **arguments)
        assert str(refused.value) == sentence


@pytest.mark.parametrize("recipe", ["mixed_adam", "Mixed-Adam", "nonsense", None, 16, []])
def test_unknown_recipe(recipe):
    with pytest.raises(ValueError) as refused:
        model_state(10, recipe)
    assert str(refused.value).startswith(f"recipe={recipe!r}: expected one of 'mixed-adam', 'fp32-adam', ")
    near = str(refused.value).endswith("; did you mean 'mixed-adam'?")
    assert near == (recipe in ("mixed_adam", "Mixed-Adam"))
    assert near == ("did you mean" in str(refused.value))


@pytest.mark.parametrize("memory", [-1, 0.5, float("nan"), False, "80GB", None])
def test_memory_that_is_no_number_of_bytes(memory):
    with pytest.raises(ValueError, match=r"^memory_bytes=.*: expected a whole number, 0 or more$"):
        largest_model(memory)
