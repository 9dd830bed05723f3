"""Parameter counts: published ones, those of the module that a config builds, and what is refused."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from course_lib.transformer import CONFIGS, GPT, TransformerConfig

LLAMA = {"gated": True, "norm": "rms", "tied": False, "learned_positions": False, "bias": False}


def unique_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())  # torch yields a tied one once


def llama(layers, hidden, heads, vocab, kv_heads, ffn, **fields):
    return TransformerConfig(layers, hidden, heads, vocab, kv_heads=kv_heads, ffn=ffn, **{**LLAMA, **fields})


def pythia(layers, hidden, heads, vocab):
    return TransformerConfig(layers, hidden, heads, vocab, tied=False, learned_positions=False)


def opt(layers, hidden, heads):
    return TransformerConfig(layers, hidden, heads, 50272, context=2050)  # two rows are never used


SMALLER_QWEN = {"qkv_bias": True, "tied": True}
# Models that are not among CONFIGS: what their published weights hold.
OTHERS = {
    "llama-1-33b": (llama(60, 6656, 52, 32000, None, 17920), 32_528_943_616),
    "llama-1-65b": (llama(80, 8192, 64, 32000, None, 22016), 65_285_660_672),
    "llama-3.1-405b": (llama(126, 16384, 128, 128256, 8, 53248), 405_853_388_800),
    "llama-3.2-1b": (llama(16, 2048, 32, 128256, 8, 8192, tied=True), 1_235_814_400),
    "llama-3.2-3b": (llama(28, 3072, 24, 128256, 8, 8192, tied=True), 3_212_749_824),
    "mistral-7b-v0.3": (llama(32, 4096, 32, 32768, 8, 14336), 7_248_023_552),
    "mistral-nemo-12b": (llama(40, 5120, 32, 131072, 8, 14336, head_dim=128), 12_247_782_400),
    "tinyllama-1.1b": (llama(22, 2048, 32, 32000, 4, 5632), 1_100_048_384),
    "yi-34b": (llama(60, 7168, 56, 64000, 8, 20480), 34_388_917_248),
    "phi-3-mini": (llama(32, 3072, 32, 32064, None, 8192), 3_821_079_552),
    "smollm-360m": (llama(32, 960, 15, 49152, 5, 2560, tied=True), 361_821_120),
    "gemma-2b": (llama(18, 2048, 8, 256000, 1, 16384, tied=True, head_dim=256), 2_506_172_416),
    "gemma-7b": (llama(28, 3072, 16, 256000, 16, 24576, tied=True, head_dim=256), 8_537_680_896),
    "qwen2.5-1.5b": (llama(28, 1536, 12, 151936, 2, 8960, **SMALLER_QWEN), 1_543_714_304),
    "qwen2.5-3b": (llama(36, 2048, 16, 151936, 2, 11008, **SMALLER_QWEN), 3_085_938_688),
    "qwen2.5-14b": (llama(48, 5120, 40, 152064, 8, 13824, qkv_bias=True), 14_770_033_664),
    "qwen2.5-32b": (llama(64, 5120, 40, 152064, 8, 27648, qkv_bias=True), 32_763_876_352),
    "qwen2.5-72b": (llama(80, 8192, 64, 152064, 8, 29568, qkv_bias=True), 72_706_203_648),
    "pythia-70m": (pythia(6, 512, 8, 50304), 70_426_624),
    "pythia-6.9b": (pythia(32, 4096, 32, 50432), 6_857_302_016),
    "pythia-12b": (pythia(36, 5120, 40, 50688), 11_846_072_320),
    "opt-125m": (opt(12, 768, 12), 125_239_296),
    "opt-6.7b": (opt(32, 4096, 32), 6_658_473_984),
}


@pytest.mark.parametrize(("config", "parameters"), OTHERS.values(), ids=OTHERS)
def test_published_counts_of_other_models(config, parameters):
    assert config.parameters == parameters


# Megatron-LM, arXiv 2104.04473, Table 1: heads, hidden, layers, billions of parameters.
MEGATRON = [
    (24, 2304, 24, 1.7), (32, 4096, 36, 7.5), (64, 8192, 48, 39.1), (96, 12288, 80, 145.6),
    (128, 20480, 105, 529.6), (160, 25600, 128, 1008.0)]


@pytest.mark.parametrize(("heads", "hidden", "layers", "billions"), MEGATRON)
def test_megatrons_table_1(heads, hidden, layers, billions):
    config = TransformerConfig(layers, hidden, heads, 51200, context=2048)
    assert round(config.parameters / 1e9, 1) == billions


@pytest.mark.parametrize(("name", "parameters"), {
    "gpt-2-medium": 354_823_168,
    "gpt-2-large": 774_030_080,
    "llama-3-70b": 70_553_706_496,
    "gpt-2-small": 124_439_808,
    "gpt-2-xl": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "mistral-7b-v0.1": 7_241_732_096,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
}.items())
def test_published_counts(name, parameters):
    assert CONFIGS[name].parameters == parameters


def test_gpt_3_rounds_to_what_its_table_prints():
    # The table prints 175.0B; its sizes give 174.6B.
    assert CONFIGS["gpt-3-175b"].parameters == pytest.approx(175.0e9, rel=0.003)


def test_gpt_2_follows_its_closed_form():
    for name in ("gpt-2-small", "gpt-2-medium", "gpt-2-large", "gpt-2-xl"):
        c = CONFIGS[name]
        layers, h = c.layers, c.hidden
        assert c.parameters == 50257 * h + 1024 * h + layers * (12 * h * h + 13 * h) + 2 * h


def test_llama_follows_its_closed_form_tied_or_not():
    for tied in (False, True):
        c = TransformerConfig(3, 96, 8, 500, kv_heads=2, ffn=200, head_dim=16, **{**LLAMA, "tied": tied})
        layer = 2 * 96 * 8 * 16 + 2 * 96 * 2 * 16 + 3 * 96 * 200 + 2 * 96
        assert c.parameters == (1 if tied else 2) * 500 * 96 + 3 * layer + 96


@pytest.mark.parametrize("name", CONFIGS)
def test_large_configs_count_what_their_module_has(name):
    with torch.device("meta"):
        assert CONFIGS[name].parameters == unique_parameters(GPT(CONFIGS[name]))


@pytest.mark.parametrize("switches", [*itertools.product((False, True), repeat=5)])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_every_switch_counts_what_its_module_has(norm, switches):
    names = ("gated", "tied", "learned_positions", "bias", "qkv_bias")
    config = TransformerConfig(
        2, 24, 6, 31, context=17, kv_heads=2, ffn=40, norm=norm, **dict(zip(names, switches, strict=True)))
    assert config.parameters == unique_parameters(GPT(config))


@settings(max_examples=60, deadline=None)
@given(
    layers=st.integers(1, 3), head_dim=st.integers(1, 9), kv_heads=st.integers(1, 4), group=st.integers(1, 4),
    hidden=st.integers(1, 40), vocab=st.integers(1, 50), context=st.integers(1, 20),
    ffn=st.none() | st.integers(1, 60), gated=st.booleans(), norm=st.sampled_from(["layer", "rms"]),
    tied=st.booleans(), learned_positions=st.booleans(), bias=st.booleans(), qkv_bias=st.booleans())
def test_any_sizes_count_what_their_module_has(kv_heads, group, **sizes):
    config = TransformerConfig(heads=kv_heads * group, kv_heads=kv_heads, **sizes)
    with torch.device("meta"):
        model = GPT(config)
        assert config.parameters == unique_parameters(model)
        logits = model(torch.zeros(2, sizes["context"], dtype=torch.int64))
    assert logits.shape == (2, sizes["context"], sizes["vocab"])


CONFIGS_TO_RUN = {
    "gpt": {"context": 12},
    "llama": LLAMA,
    "grouped": {**LLAMA, "kv_heads": 2, "head_dim": 10},
    "grouped with learned positions": {"context": 12, "kv_heads": 1},
}


@pytest.mark.parametrize("fields", CONFIGS_TO_RUN.values(), ids=CONFIGS_TO_RUN.keys())
def test_options_change_memory_and_not_the_result(fields):
    config = TransformerConfig(2, 32, 4, 50, **fields)
    tokens = torch.randint(50, (3, 12), generator=torch.Generator().manual_seed(1))
    reference = loss_and_gradients(config, tokens)
    for attention, recompute in itertools.product(("eager", "fused"), ("none", "selective", "full")):
        torch.testing.assert_close(loss_and_gradients(config, tokens, attention, recompute), reference)


def loss_and_gradients(config, tokens, attention="eager", recompute="none"):
    torch.manual_seed(0)
    model = GPT(config, attention, recompute).double()
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


def test_dropout_is_repeated_when_layers_are_recomputed():
    config = TransformerConfig(2, 32, 4, 50, context=12, dropout=0.3)
    tokens = torch.randint(50, (3, 12), generator=torch.Generator().manual_seed(1))
    reference = loss_and_gradients(config, tokens)
    torch.testing.assert_close(loss_and_gradients(config, tokens, recompute="full"), reference)
    torch.testing.assert_close(loss_and_gradients(config, tokens, recompute="selective"), reference)
    without = loss_and_gradients(TransformerConfig(2, 32, 4, 50, context=12), tokens)
    assert without[0] != reference[0]


def test_dropout_in_fused_attention_is_repeated_too():
    config = TransformerConfig(2, 32, 4, 50, context=12, dropout=0.3)
    tokens = torch.randint(50, (3, 12), generator=torch.Generator().manual_seed(1))
    reference = loss_and_gradients(config, tokens, "fused")
    for recompute in ("selective", "full"):
        torch.testing.assert_close(loss_and_gradients(config, tokens, "fused", recompute), reference)


def test_on_a_cpu_fused_dropout_is_torchs_own_and_keeps_no_scores():
    from course_lib.gpt import _fused_attention, _scaled_dot_product

    ways = (_fused_attention, lambda *arguments: _scaled_dot_product(*arguments).flatten(2))
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, 40, heads, 8, dtype=torch.float64, generator=generator) for heads in (4, 2, 2)]
    found, largest = [], []
    for attend in ways:
        torch.manual_seed(0)
        kept = []
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: kept.append(x) or x, lambda x: x):
            mixed = attend(*leaves, 0.3)
        mixed.square().sum().backward()
        found.append([mixed, *(leaf.grad for leaf in leaves)])
        largest.append(max(tensor.numel() for tensor in kept))
    torch.testing.assert_close(*found)
    assert largest == [2 * 40 * 4 * 8, 2 * 4 * 40 * 40]  # the queries; the scores


@pytest.mark.parametrize("attention", ["eager", "fused"])
@pytest.mark.parametrize("fields", CONFIGS_TO_RUN.values(), ids=CONFIGS_TO_RUN.keys())
def test_a_token_sees_no_later_one(fields, attention):
    model = GPT(TransformerConfig(2, 32, 4, 50, **fields), attention).double()
    tokens = torch.randint(50, (1, 12), generator=torch.Generator().manual_seed(1))
    changed = tokens.clone()
    changed[0, 7:] = (tokens[0, 7:] + 1) % 50
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


@pytest.mark.parametrize("attention", ["eager", "fused"])
def test_positions_are_told_apart_without_a_table(attention):
    model = GPT(TransformerConfig(1, 32, 4, 50, **LLAMA), attention).double()
    one, other = model(torch.tensor([[3, 9, 5]])), model(torch.tensor([[9, 3, 5]]))
    assert not torch.allclose(one[0, 2], other[0, 2])


def test_rotations_depend_on_the_distance_only():
    from course_lib.gpt import _rotate, _rotation

    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 16, dtype=torch.float64, generator=generator)
    cosine, sine = _rotation(30, 16, like=query)
    query, key = (_rotate(x.expand(1, 30, 1, 16), cosine, sine)[0, :, 0] for x in (query, key))
    scores = query @ key.T
    for distance in (0, 1, 7):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-5, atol=1e-5)


def test_groups_of_query_heads_share_a_key_head():
    """Grouped attention is full attention whose key and value heads are repeated."""
    grouped = GPT(TransformerConfig(1, 32, 4, 50, context=12, kv_heads=2)).double()
    full = GPT(TransformerConfig(1, 32, 4, 50, context=12)).double()
    state = grouped.state_dict()
    for name in ("key", "value"):
        for kind in ("weight", "bias"):
            key = f"layers.0.attention.{name}.{kind}"
            state[key] = state[key].unflatten(0, (2, 8)).repeat_interleave(2, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    tokens = torch.randint(50, (2, 12), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(grouped(tokens), full(tokens))


def test_a_fresh_model_knows_nothing():
    torch.manual_seed(0)
    config = TransformerConfig(4, 64, 4, 100, context=32)
    tokens = torch.randint(100, (4, 32))
    logits = GPT(config)(tokens)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(100), abs=0.2)


def test_a_large_model_runs_without_memory():
    with FakeTensorMode():
        logits = GPT(CONFIGS["llama-2-7b"])(torch.zeros(1, 8, dtype=torch.int64))
    assert logits.shape == (1, 8, 32000)


def test_more_tokens_than_the_table_has_rows():
    model = GPT(TransformerConfig(1, 8, 2, 5, context=4))
    with pytest.raises(ValueError, match="^sequence=5: expected at most context=4$"):
        model(torch.zeros(1, 5, dtype=torch.int64))


def test_flops_per_token():
    # PaLM 540B, arXiv 2204.02311: 3.28 TFLOP per token at 2,048 tokens, of which 6P are 3.24.
    shape = TransformerConfig(118, 18432, 48, 256_000, head_dim=256, kv_heads=1, **{**LLAMA, "tied": True})
    attention = shape.flops_per_token(2048) - 6 * shape.parameters
    assert 6 * 540.35e9 + attention == pytest.approx(3.28e12, rel=0.002)
    assert attention == 12 * 118 * 48 * 256 * 2048


# llm-foundry's measured runs of MPT: layers, hidden, parameters, sequence; tokens/s of a GPU, its peak in
# TFLOP/s, the utilization printed.
MPT = [
    (80, 8192, 64_862_437_376, 2048, 1039, 989.5, 42.57),
    (48, 7168, 29_975_214_080, 2048, 2308, 989.5, 43.92),
    (40, 5120, 12_853_954_560, 2048, 4792, 989.5, 39.79),
    (32, 4096, 6_658_859_008, 2048, 10643, 989.5, 46.44),
    (32, 4096, 6_684_024_832, 8192, 6935, 989.5, 37.14),
    (32, 2560, 2_651_837_440, 2048, 22525, 989.5, 40.80),
    (24, 2048, 1_315_950_592, 2048, 45455, 989.5, 41.82),
    (12, 768, 125_311_488, 2048, 142830, 312, 44.79),
    (48, 7168, 29_975_214_080, 2048, 916, 312, 55.30),
    (32, 4096, 6_658_859_008, 2048, 4641, 312, 64.23),
]


@pytest.mark.parametrize(("layers", "hidden", "parameters", "sequence", "tokens", "peak", "printed"), MPT)
def test_measured_runs_of_mpt(layers, hidden, parameters, sequence, tokens, peak, printed):
    config = TransformerConfig(layers, hidden, hidden // 64, 50368, context=sequence)
    assert config.parameters == parameters
    # Tokens/s are cut off to whole ones: 1 in 1,000.
    assert 100 * tokens * config.flops_per_token(sequence) / (peak * 1e12) == pytest.approx(printed, rel=1e-3)


def test_flops_per_token_use_heads_times_head_dim():
    narrow = TransformerConfig(2, 64, 4, 100, context=32, head_dim=8)
    assert narrow.flops_per_token(32) == 6 * narrow.parameters + 12 * 2 * (4 * 8) * 32


def test_numbers_of_numpy_do_not_overflow():
    config = TransformerConfig(*map(np.int32, (100, 100_000, 100, 100_000)), context=np.int32(10))
    assert config.parameters == TransformerConfig(100, 100_000, 100, 100_000, context=10).parameters
    assert type(config.parameters) is int
    assert type(TransformerConfig(1, 8, 2, 5, context=4, dropout=np.float32(0.5)).dropout) is float


REFUSED = {
    "heads=3: expected a divisor of hidden=64, or a head_dim": {"heads": 3},
    "kv_heads=3: expected a divisor of heads=4": {"kv_heads": 3},
    "kv_heads=8: expected a divisor of heads=4": {"kv_heads": 8},
    "layers=0: expected a positive whole number": {"layers": 0},
    "hidden=-64: expected a positive whole number": {"hidden": -64},
    "heads=2.5: expected a positive whole number": {"heads": 2.5},
    "heads=True: expected a positive whole number": {"heads": True},
    "vocab=nan: expected a positive whole number": {"vocab": float("nan")},
    "vocab=inf: expected a positive whole number": {"vocab": float("inf")},
    "vocab='50257': expected a positive whole number": {"vocab": "50257"},
    "ffn=0: expected a positive whole number": {"ffn": 0},
    "head_dim=0: expected a positive whole number": {"head_dim": 0},
    "context=0: expected a positive whole number": {"context": 0},
    "context=None: expected the number of rows of the table of learned positions": {"context": None},
    "norm='RMS': expected one of 'layer', 'rms'; did you mean 'rms'?": {"norm": "RMS"},
    "tied=1: expected True or False": {"tied": 1},
    "gated='yes': expected True or False": {"gated": "yes"},
    "dropout=1.0: expected a probability, at least 0 and below 1": {"dropout": 1.0},
    "dropout=nan: expected a probability, at least 0 and below 1": {"dropout": float("nan")},
    "dropout=True: expected a probability, at least 0 and below 1": {"dropout": True},
    "dropout='0.1': expected a probability, at least 0 and below 1": {"dropout": "0.1"},
}


@pytest.mark.parametrize(("sentence", "fields"), REFUSED.items(), ids=REFUSED.keys())
def test_refused(sentence, fields):
    with pytest.raises(ValueError) as refused:
        TransformerConfig(**{"layers": 2, "hidden": 64, "heads": 4, "vocab": 100, "context": 32, **fields})
    assert str(refused.value) == sentence


def test_unknown_names():
    with pytest.raises(ValueError, match=r"^model='llama2-7b': expected one of .*mean 'llama-2-7b'\?$"):
        CONFIGS["llama2-7b"]
    with pytest.raises(ValueError) as refused:
        GPT("gpt-2-xl")
    assert str(refused.value) == (
        "config='gpt-2-xl': expected a TransformerConfig, such as CONFIGS['gpt-2-xl']")
    config = TransformerConfig(1, 8, 2, 5, context=4)
    with pytest.raises(ValueError, match="^attention='flash': expected one of 'eager', 'fused'"):
        GPT(config, attention="flash")
    with pytest.raises(ValueError, match="^recompute=None: expected one of 'none', 'selective', 'full'"):
        GPT(config, recompute=None)
    with pytest.raises(ValueError, match="^sequence=0: expected a positive whole number$"):
        config.flops_per_token(0)


def test_formulas_import_no_torch():
    check = (
        "import sys; from course_lib import arguments, transformer, memory, activations, hardware;"
        "assert not {'torch', 'numpy'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)
