"""U, MFU and HFU of published runs come out as they were published."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import utilization
from course_lib.transformer import CONFIGS, RECOMPUTE
from course_lib.utilization import Parts

A100, H100, TPU_V4 = 312e12, 989.5e12, 275e12
PALM = {"parameters": 540.35e9, "layers": 118, "heads_times_head_dim": 48 * 256, "sequence": 2048}


def percent(value):
    return 100 * value


# --- PaLM, arXiv 2204.02311, section 4.1, Table 3 and Appendix B ---


def test_palm():
    flops = utilization.flops_per_token(**PALM)
    assert flops / 1e12 == pytest.approx(3.28, abs=0.005)
    mfu = utilization.mfu(238_300, **PALM, devices=6144, peak_flops=TPU_V4)
    assert percent(mfu) == pytest.approx(46.2, abs=0.05)
    without_attention = utilization.utilization(238_300, 6 * PALM["parameters"], 6144, TPU_V4)
    assert percent(without_attention) == pytest.approx(45.7, abs=0.05)
    with_recomputation = utilization.utilization(238_300, 4.10e12, 6144, TPU_V4)
    assert percent(with_recomputation) == pytest.approx(57.8, abs=0.1)


def test_megatron_turing_nlg():
    tokens_per_second = 1920 * 2048 / 60.1
    assert tokens_per_second == pytest.approx(65.43e3, rel=1e-3)
    found = utilization.mfu(tokens_per_second, 529.6e9, 105, 20480, 2048, 2240, A100)
    assert percent(found) == pytest.approx(30.2, abs=0.1)


def test_llama_3():
    """arXiv 2407.21783, Table 4: the row of 8,192 GPUs."""
    assert percent(utilization.utilization(430e12, 1, 1, 989e12)) == pytest.approx(43, abs=0.5)


# --- Narayanan et al., arXiv 2104.04473: every layer is computed a second time, so these are HFU ---

MEGATRON = [  # billions of parameters, hidden, layers, GPUs, TFLOP/s of a GPU, % of peak, PFLOP/s in all
    (1.7, 2304, 24, 32, 137, 44, 4.4),
    (7.5, 4096, 36, 128, 142, 46, 18.2),
    (39.1, 8192, 48, 512, 138, 44, 70.8),
    (145.6, 12288, 80, 1536, 148, 47, 227.1),
    (529.6, 20480, 105, 2520, 163, 52, 410.2),
    (1008.0, 25600, 128, 3072, 163, 52, 502.0),
]


@pytest.mark.parametrize("billions, hidden, layers, gpus, teraflops, share, petaflops", MEGATRON)
def test_megatron(billions, hidden, layers, gpus, teraflops, share, petaflops):
    done = utilization.matmul_flops_per_token(layers, hidden, 51200, 2048, recompute="full")
    tokens_per_second = petaflops * 1e15 / done
    hfu = utilization.utilization(tokens_per_second, done, gpus, A100)
    assert percent(hfu) == pytest.approx(share, abs=0.6)
    assert gpus * teraflops / 1e3 == pytest.approx(petaflops, rel=5e-3)
    needed = utilization.matmul_flops_per_token(layers, hidden, 51200, 2048)
    mfu = utilization.utilization(tokens_per_second, needed, gpus, A100)
    assert mfu / hfu == pytest.approx(3 / 4, rel=0.04)  # the logits are not computed again
    assert done == pytest.approx(8e9 * billions, rel=0.1)


@pytest.mark.parametrize("billions, gpus, teraflops, days", [
    (175, 1024, 140, 34), (174.6, 384, 144, 90), (174.6, 768, 88, 74), (174.6, 1536, 44, 74),
    (174.6, 384, 153, 84),
])  # fmt: skip
def test_days_for_300_billion_tokens(billions, gpus, teraflops, days):
    """GPT-3; with equation 3, except for the first one, which the paper has from 8·T·P/(n·X)."""
    done = utilization.matmul_flops_per_token(96, 12288, 51200, 2048, recompute="full")
    done = 8e9 * billions if gpus == 1024 else done
    hours = utilization.gpu_hours(300e9, gpus * teraflops * 1e12 / done, gpus)
    assert hours / gpus / 24 == pytest.approx(days, rel=0.01)


# --- Korthikanti et al., arXiv 2205.05198, Table 5: with selective recomputation, vocabulary 51,200 ---


@pytest.mark.parametrize("hidden, layers, batch, gpus, seconds, mfu, hfu", [
    (6144, 48, 4, 8, 1.10, 41.5, 43.7), (20480, 105, 280, 280, 37.83, 56.0, 57.0)])  # fmt: skip
def test_selective_recomputation(hidden, layers, batch, gpus, seconds, mfu, hfu):
    tokens_per_second = batch * 2048 / seconds
    for recompute, published in (("none", mfu), ("selective", hfu)):
        flops = utilization.matmul_flops_per_token(layers, hidden, 51200, 2048, recompute)
        found = utilization.utilization(tokens_per_second, flops, gpus, A100)
        assert percent(found) == pytest.approx(published, abs=0.3)


@pytest.mark.parametrize("parameters, hidden, layers, mfu, hfu", [
    (22e9, 6144, 48, 41.5, 43.7), (529.6e9, 20480, 105, 56.0, 57.0)])  # fmt: skip
def test_selective_recomputation_counts_the_same_in_both_ways_to_count(parameters, hidden, layers, mfu, hfu):
    products = [utilization.matmul_flops_per_token(layers, hidden, 51200, 2048, recompute)
                for recompute in ("selective", "none")]  # fmt: skip
    sizes = parameters, layers, hidden, 2048
    ratio = utilization.hfu(1, *sizes, 1, 1, "selective") / utilization.mfu(1, *sizes, 1, 1)
    assert ratio == pytest.approx(products[0] / products[1], rel=1e-3)
    assert ratio == pytest.approx(hfu / mfu, rel=2e-3)


# --- Jiang et al., arXiv 2402.15627 (MegaScale), Table 2 ---


@pytest.mark.parametrize("batch, gpus, seconds, tokens_per_second, days, mfu", [
    (768, 256, 40.0, 39.3e3, 88.35, 53.0),
    (768, 768, 15.2, 103.8e3, 33.45, 46.7),
    (768, 1024, 11.9, 132.7e3, 26.17, 44.7),
    (6144, 3072, 29.02, 433.6e3, 8.01, 48.7),
    (6144, 8192, 12.24, 1027.9e3, 3.38, 43.3),
    (768, 256, 32.0, 49.0e3, 70.86, None),  # MegaScale's own rows: their attention has fewer FLOPs
    (6144, 3072, 23.66, 531.9e3, 6.53, None),
    (6144, 12288, 6.34, 1984.0e3, 1.75, None),
])  # fmt: skip
def test_megascale(batch, gpus, seconds, tokens_per_second, days, mfu):
    assert batch * 2048 / seconds == pytest.approx(tokens_per_second, rel=5e-3)
    hours = utilization.gpu_hours(300e9, tokens_per_second, gpus)
    assert hours / gpus / 24 == pytest.approx(days, rel=5e-3)
    if mfu is not None:
        flops = utilization.matmul_flops_per_token(96, 12288, 64000, 2048)
        found = utilization.utilization(tokens_per_second, flops, gpus, A100)
        assert percent(found) == pytest.approx(mfu, abs=0.1)


# --- llm-foundry, scripts/train/benchmarking/README.md ---

SHAPES = {"125m": (12, 768), "1b": (24, 2048), "3b": (32, 2560), "7b": (32, 4096), "13b": (40, 5120),
          "30b": (48, 7168), "70b": (80, 8192)}  # fmt: skip


@pytest.mark.parametrize("peak, model, parameters, sequence, tokens_per_second, mfu, hfu", [
    (H100, "70b", 64862437376, 2048, 1039, 42.57, 56.76),
    (H100, "30b", 29975214080, 2048, 2308, 43.92, 58.57),
    (H100, "13b", 12853954560, 2048, 4792, 39.79, 39.79),
    (H100, "7b", 6658859008, 2048, 10643, 46.44, 46.44),
    (H100, "7b", 6684024832, 8192, 6935, 37.14, 49.52),
    (H100, "3b", 2651837440, 2048, 22525, 40.80, 40.80),
    (H100, "1b", 1315950592, 2048, 45455, 41.82, 41.82),
    (A100, "30b", 29975214080, 2048, 916, 55.30, 73.74),
    (A100, "7b", 6658859008, 2048, 4641, 64.23, 64.23),
    (A100, "125m", 125311488, 2048, 142830, 44.79, 44.79),
    (A100, "7b", 6658859008, 2048, 3623, 50.14, 66.85),
])  # fmt: skip
def test_llm_foundry(peak, model, parameters, sequence, tokens_per_second, mfu, hfu):
    sizes = (parameters, *SHAPES[model], sequence)
    found = utilization.mfu(tokens_per_second, *sizes, 1, peak)
    assert percent(found) == pytest.approx(mfu, abs=0.1)
    recompute = "full" if hfu > mfu else "none"
    found = utilization.hfu(tokens_per_second, *sizes, 1, peak, recompute)
    assert percent(found) == pytest.approx(hfu, abs=0.1)


# --- formulas ---


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_config_counts_the_same(name):
    config = CONFIGS[name]
    sizes = (config.parameters, config.layers, config.heads * config.head_dim, 1024)
    assert utilization.flops_per_token(*sizes) == config.flops_per_token(1024)


def test_recomputation_adds_its_part_of_the_forward_pass():
    none, selective, full = (
        utilization.hardware_flops_per_token(1e9, 10, 100, 1000, each) for each in RECOMPUTE)
    assert none == utilization.flops_per_token(1e9, 10, 100, 1000) == 6e9 + 12e6
    assert (selective - none, full - none) == (12e6, 2e9 + 4e6)


def test_peak_tokens():
    assert utilization.peak_tokens_per_second(2e9, 4, 1e12) == 2000
    assert utilization.utilization(500, 2e9, 4, 1e12) == 0.25
    assert utilization.utilization(0, 2e9, 4, 1e12) == 0


def test_the_bill():
    assert utilization.gpu_hours(7.2e6, 1000, 8) == 16
    assert utilization.gpu_hours(7.2e6, 1000, 8, share=0.25) == 4


@pytest.mark.parametrize("call", [
    lambda: utilization.flops_per_token(0, 1, 1, 1),
    lambda: utilization.flops_per_token(1, 1.5, 1, 1),
    lambda: utilization.hardware_flops_per_token(1, 1, 1, 1, "half"),
    lambda: utilization.peak_tokens_per_second(1, 0, 1),
    lambda: utilization.utilization(-1, 1, 1, 1),
    lambda: utilization.gpu_hours(1, 1, 1, share=1.5),
    lambda: Parts(1, 1, 0, 1, 0, 0, 0, 0),
    lambda: Parts(1, 1, 1, 1, -1, 0, 0, 0),
    lambda: Parts(1, 1, 1, 1, 0, 0, 0, 0, -2),
])  # fmt: skip
def test_bad_arguments_are_refused(call):
    with pytest.raises(ValueError, match="expected"):
        call()


# --- the waterfall ---

PARTS = Parts(100e9, 50e9, step=1.25, compute=0.8, exposed=0.2, optimizer=0.1, data=0.05, idle=0.06)


def test_the_parts_go_from_peak_to_u():
    assert PARTS.utilization == pytest.approx(0.4)
    assert PARTS.unexplained == pytest.approx(0.04)
    assert PARTS.shares() == pytest.approx({
        "compute below peak": 0.24, "slowed by communication": 0, "exposed communication": 0.16,
        "optimizer": 0.08, "data": 0.04, "idle": 0.048, "unexplained": 0.032, "achieved": 0.4})  # fmt: skip
    slowed = replace(PARTS, slowed=0.025)
    assert slowed.shares()["slowed by communication"] == pytest.approx(0.02)
    assert slowed.unexplained == pytest.approx(0.015)
    assert list(PARTS.shares())[-1] == "achieved"


@pytest.mark.parametrize("step, explained", [(1.21, True), (1.27, True), (1.28, False), (1.15, False)])
def test_parts_that_leave_much_unexplained_say_so(step, explained):
    """They add up to 1.21 s."""
    assert replace(PARTS, step=step).is_explained == explained


seconds = st.floats(0, 100)


@given(st.floats(0.1, 100), seconds, seconds, seconds, seconds, st.floats(0.1, 100))
def test_shares_add_up_whatever_was_measured(compute, exposed, optimizer, data, idle, step):
    parts = Parts(1e12, 1e11, step, compute, exposed, optimizer, data, idle)
    assert sum(parts.shares().values()) == pytest.approx(1)


def test_formulas_need_no_torch():
    code = "import sys, course_lib.utilization; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
