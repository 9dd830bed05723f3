"""Hardware numbers: units, the traps of data sheets, and no number without a source."""

import pytest

from course_lib.hardware import ACCELERATORS

NUMBERS = ("memory_bytes", "bf16_flops", "fp16_flops", "bandwidth", "link_bandwidth")


@pytest.mark.parametrize("key", ACCELERATORS)
def test_each_number_has_a_source_and_no_source_is_without_its_number(key):
    card = ACCELERATORS[key]
    assert set(card.sources) == {field for field in NUMBERS if getattr(card, field) is not None}
    assert all(card.sources.values())


@pytest.mark.parametrize("key", ACCELERATORS)
def test_memory_is_in_bytes_and_near_what_the_box_says(key):
    card = ACCELERATORS[key]
    if card.memory_bytes is None:
        return
    assert card.memory_bytes % 2**20 == 0 and type(card.memory_bytes) is int
    # Vendors round to GB or to GiB, and error correction takes up to 6.25% away.
    assert 0.93 * card.memory_gb * 10**9 < card.memory_bytes <= card.memory_gb * 2**30


# GPU, MiB that its driver shows, dense 16-bit TFLOP/s, GB/s of memory and of links in one direction.
SHEET = [
    ("rtx-3090", 24576, 71.2, None, 31), ("rtx-4090", 24564, 165.2, 1008, 31),
    ("rtx-5090", 32607, 209.5, None, 63), ("l4", 23034, 121, 300, 31), ("l40s", 46068, 362, 864, 31),
    ("a10", None, 125, 600, 31), ("a10g", 23028, None, 600, None), ("rtx-3060", 12288, None, None, 31),
    ("a100-40gb", 40960, 312, 1555, 300), ("a100-80gb", 81920, 312, 2039, 300),
    ("h100-pcie", None, 756, 2000, 63), ("h100-sxm", 81559, 989.4, 3350, 450),
    ("h200", 143771, 989, 4800, 450), ("b200", 183359, 2250, 8000, 900), ("gb200", None, 2500, 8000, 900),
    ("mi250x", None, 191.5, 1640, None), ("mi300x", None, 1300, 5300, 448),
]


@pytest.mark.parametrize(("key", "mebibytes", "teraflops", "memory_gb_s", "link_gb_s"), SHEET)
def test_the_sheet(key, mebibytes, teraflops, memory_gb_s, link_gb_s):
    card = ACCELERATORS[key]
    expected = (mebibytes and mebibytes * 2**20, *(
        number and pytest.approx(number * unit) for number, unit in [
            (teraflops, 1e12), (teraflops, 1e12), (memory_gb_s, 1e9), (link_gb_s, 1e9)]))
    assert tuple(getattr(card, field) for field in NUMBERS) == expected


@pytest.mark.parametrize("key", ["t4", "v100-16gb", "v100-32gb"])
def test_turing_and_volta_have_no_bf16(key):
    card = ACCELERATORS[key]
    assert card.bf16_flops is None
    assert card.fp16_flops == {"t4": 65e12}.get(key, 125e12)


@pytest.mark.parametrize(("key", "teraflops"), [("tpu-v4", 275), ("tpu-v5e", 197), ("tpu-v5p", 459)])
def test_tpus_have_no_fp16(key, teraflops):
    card = ACCELERATORS[key]
    assert (card.bf16_flops, card.fp16_flops) == (teraflops * 1e12, None)


SPARSE = {
    "rtx-3090": 142.4, "rtx-4090": 330.4, "rtx-5090": 419, "l4": 242, "a10": 250, "l40s": 733,
    "a100-40gb": 624, "h100-pcie": 1513, "h100-sxm": 1978.9,
}


@pytest.mark.parametrize("key", SPARSE)
def test_peaks_are_dense(key):
    assert ACCELERATORS[key].bf16_flops == pytest.approx(SPARSE[key] * 1e12 / 2, rel=0.02)


@pytest.mark.parametrize(
    ("key", "flops_per_byte"), [("h100-sxm", 295), ("a100-80gb", 153), ("rtx-4090", 164)])
def test_ridge_points(key, flops_per_byte):
    card = ACCELERATORS[key]
    assert round(card.bf16_flops / card.bandwidth) == flops_per_byte


def test_a_card_is_a_constant():
    card = ACCELERATORS["h100-sxm"]
    with pytest.raises(AttributeError):
        card.memory_bytes = 1
    with pytest.raises(TypeError):
        card.sources["memory_bytes"] = "me"


@pytest.mark.parametrize(("key", "guesses"), {
    "h100": ["h100-pcie", "h100-sxm"],
    "H100": ["h100-pcie", "h100-sxm"],
    "h100-80gb": ["h100-pcie", "h100-sxm"],  # and not a100-80gb, which is one letter off
    "H100 80GB HBM3": ["h100-pcie", "h100-sxm"],
    "H100-SXM": ["h100-sxm"],
    "h100_sxm": ["h100-sxm"],
    "hl00-sxm": ["h100-sxm"],
    "a100-sxm": ["a100-40gb", "a100-80gb"],
    "V100": ["v100-16gb", "v100-32gb"],
    "rtx4090": ["rtx-4090"],
    "4090": ["rtx-4090"],
    "tpu": ["tpu-v4", "tpu-v5e", "tpu-v5p"],
    "abacus": [],
    "": [],
    None: [],
}.items())
def test_unknown_card(key, guesses):
    with pytest.raises(ValueError) as refused:
        ACCELERATORS[key]
    sentence, _, meant = str(refused.value).partition("; did you mean ")
    assert sentence == f"accelerator={key!r}: expected one of {', '.join(map(repr, ACCELERATORS))}"
    assert meant == (" or ".join(map(repr, guesses)) + "?" if guesses else "")
