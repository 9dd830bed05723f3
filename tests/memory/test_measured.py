"""A training step measured: against the formulas, against torch's own tracker, fake against real tensors."""

import contextlib
import dataclasses
import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from course_lib import measured_memory
from course_lib.activations import layer_terms, model_terms
from course_lib.measured_memory import training_step
from course_lib.memory import model_state
from course_lib.storages import storage_bytes
from course_lib.transformer import CONFIGS, GPT, TransformerConfig

LLAMA = {"gated": True, "norm": "rms", "learned_positions": False, "bias": False}
SMALL = {
    "gpt": TransformerConfig(2, 64, 4, 96, context=64),
    "llama": TransformerConfig(3, 64, 4, 96, kv_heads=2, ffn=176, tied=False, **LLAMA),
    "qwen": TransformerConfig(2, 96, 6, 80, kv_heads=2, ffn=200, head_dim=12, qkv_bias=True, **LLAMA),
}
BATCH, SEQUENCE = 2, 32

# Attention, recomputation and dropout.
CASES = {
    "eager": ("eager", "none", 0.0),
    "fused": ("fused", "none", 0.0),
    "dropout": ("eager", "none", 0.1),
    "fused with dropout": ("fused", "none", 0.1),
    "selective": ("eager", "selective", 0.0),
    "full": ("fused", "full", 0.0),
    "full with dropout": ("eager", "full", 0.1),
}
# Heads of 64 or more, as real models have: what a norm or a fused kernel notes for each row is then small.
SHAPES = {
    "gpt": (TransformerConfig(2, 256, 4, 500, context=512), 2, 200),
    "wide gpt": (TransformerConfig(2, 768, 12, 300, context=512), 1, 512),
    "llama": (TransformerConfig(2, 512, 8, 400, ffn=1376, tied=False, **LLAMA), 3, 128),
    "grouped": (TransformerConfig(3, 512, 8, 400, kv_heads=2, ffn=1800, tied=False, **LLAMA), 1, 300),
    "qwen": (TransformerConfig(2, 384, 6, 700, kv_heads=1, ffn=1001, qkv_bias=True, **LLAMA), 2, 64),
    "odd heads": (TransformerConfig(2, 320, 3, 100, head_dim=64, ffn=777, gated=True, context=99), 2, 99),
}


@pytest.mark.parametrize("recipe", measured_memory.RECIPES)
@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
def test_model_state_is_the_formulas_to_the_byte(config, recipe):
    step = training_step(config, BATCH, SEQUENCE, recipe)
    state = model_state(config.parameters, recipe)
    assert step.parameters == config.parameters
    assert (step.weights, step.gradients, step.master) == (state.weights, state.gradients, state.master)
    assert step.moments == state.optimizer
    assert step.model_state == state.total
    assert step.step_scalars == 4 * len(list(GPT(config).parameters()))


def test_a_step_of_llama_2_7b():
    step = training_step(CONFIGS["llama-2-7b"], 1, 2048)
    assert step.parameters == 6_738_415_616
    assert (step.weights, step.gradients) == (13_476_831_232, 13_476_831_232)
    assert (step.master, step.moments) == (26_953_662_464, 53_907_324_928)
    assert step.model_state == 16 * step.parameters
    assert step.logits - 4 == 4 * 2048 * 32000
    largest = 32000 * 4096  # the embedding, whose gradient stands there in fp32 for a moment
    assert 0 <= step.peaks["step"] - 16 * step.parameters - 4 * largest < 1e-5 * step.parameters


@pytest.mark.parametrize(
    ("case", "recipe"),
    [*((case, "mixed-adam") for case in CASES),
     *(("dropout", recipe) for recipe in measured_memory.RECIPES if recipe != "mixed-adam")])
def test_real_tensors_agree_to_the_byte(case, recipe):
    config = with_dropout(SMALL["llama"] if case == "fused" else SMALL["gpt"], case)
    attention, recompute, _ = CASES[case]
    fake, real = (
        training_step(config, BATCH, SEQUENCE, recipe, fake, attention=attention, recompute=recompute)
        for fake in (True, False)
    )
    assert same(fake, real)


def same(one, other):
    """Kinds and peaks; of the curves only those, since autocast drops its copies in no fixed order."""
    kinds = dataclasses.replace(one, curve={}) == dataclasses.replace(other, curve={})
    return kinds and one.peaks == other.peaks


def with_dropout(config, case):
    return dataclasses.replace(config, dropout=CASES[case][2])


@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
def test_casting_all_gradients_at_once_peaks_at_20_bytes_and_one_by_one_stays_at_16(config):
    weights = list(GPT(config).parameters())
    # Beside the model's state: Adam's steps, the tokens and their targets, the loss.
    rest = 4 * len(weights) + 2 * BATCH * SEQUENCE * 8 + 4
    at_once = training_step(config, BATCH, SEQUENCE, gradient_casts="all-at-once")
    one_by_one = training_step(config, BATCH, SEQUENCE, gradient_casts="one-at-a-time")
    assert at_once.peaks["step"] == 20 * config.parameters + rest
    largest = max(weight.numel() for weight in weights)
    assert one_by_one.peaks["step"] == 16 * config.parameters + 4 * largest + rest
    for step in (at_once, one_by_one):
        assert step.model_state == 16 * config.parameters
        assert step.curve["step"][-1] == 16 * config.parameters + rest


def test_a_step_without_master_weights_casts_nothing():
    for recipe in ("fp32-adam", "autocast-adam", "bf16-adam"):
        ways = [
            training_step(SMALL["gpt"], BATCH, SEQUENCE, recipe, gradient_casts=casts)
            for casts in measured_memory.GRADIENT_CASTS
        ]
        assert same(*ways)


def pairs():
    """Each shape and each case in every run of the tests, and all their pairs in the long one."""
    for shape, case in itertools.product(SHAPES, CASES):
        in_all_runs = shape in ("gpt", "llama") or case == "eager"
        yield pytest.param(shape, case, marks=[] if in_all_runs else [pytest.mark.long])


@pytest.mark.parametrize(("shape", "case"), list(pairs()))
def test_activations_agree_with_the_formula_by_layer_and_kind(shape, case):
    config, batch, sequence = SHAPES[shape]
    config = with_dropout(config, case)
    attention, recompute, _ = CASES[case]
    step = training_step(config, batch, sequence, attention=attention, recompute=recompute)
    options = {"attention": attention, "mask_bytes": 2}
    terms = layer_terms(config, batch, sequence, recompute, **options)
    for index in range(config.layers):
        kinds = step.layer(index)
        if index == 0 and not config.learned_positions and recompute != "full":
            kinds["attention"] -= rotation_bytes(config, sequence)
        assert sum(kinds.values()) == pytest.approx(sum(terms.values()), rel=0.02)
        if recompute != "full":
            assert kinds == pytest.approx(by_module(terms), rel=0.02)
    model = model_terms(config, batch, sequence, recompute, **options)
    assert step.activation_bytes == pytest.approx(sum(model.values()), rel=0.02)
    assert step.logits - 4 == model["logits"]  # the loss keeps the sum of its weights, too


def rotation_bytes(config, sequence):
    """The cosines and sines that all layers share; the first one is the first to keep them."""
    return 2 * sequence * (config.head_dim // 2) * 2


def by_module(terms):
    """The formula's terms, added up as the measured layer's modules keep them."""
    masks = terms.get("dropout masks", 0) // 2
    attention = ("attention input", "queries, keys, values", "attention output", "scores")
    return {
        "attention_norm": terms["norm inputs"] // 2,
        "attention": sum(terms.get(kind, 0) for kind in attention) + masks,
        "mlp_norm": terms["norm inputs"] // 2,
        "mlp": terms["MLP input"] + terms["MLP"] + masks,
    }


def test_autocast_keeps_bf16_copies_of_all_matrices_until_backward():
    config = SMALL["llama"]
    step = training_step(config, BATCH, SEQUENCE, "autocast-adam")
    matrices = sum(weight.numel() for weight in GPT(config).parameters() if weight.dim() == 2)
    embedding = config.vocab * config.hidden  # looked up, not multiplied
    assert step.weight_copies == 2 * (matrices - embedding)
    for recipe in ("mixed-adam", "fp32-adam"):
        assert training_step(config, BATCH, SEQUENCE, recipe).weight_copies == 0


@pytest.mark.parametrize(
    ("recipe", "casts"),
    [("mixed-adam", "all-at-once"), ("mixed-adam", "one-at-a-time"),
     ("mixed-adam-fp32-grads", "one-at-a-time"), ("autocast-adam", "one-at-a-time")])
def test_the_peak_is_what_torchs_own_tracker_finds(recipe, casts):
    with FakeTensorMode(), measured_memory._LiveBytes() as live:
        trainer = measured_memory._Trainer(
            SMALL["llama"], measured_memory.RECIPES[recipe], casts, "eager", "none", "cpu")
        tokens = torch.randint(96, (2, BATCH, SEQUENCE))
        trainer.make_moments()
        trainer.model.zero_grad()
        tracker = MemTracker()
        tracker.track_external(trainer.model, trainer.optimizer, *trainer.master, tokens)
        with tracker:
            trainer.run(*tokens, 1, live)
    found = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    assert max(max(sizes) for sizes in live.curve.values()) == found


def test_gradients_are_not_there_in_forward_and_come_one_by_one_in_backward():
    config = SMALL["gpt"]
    step = training_step(config, BATCH, SEQUENCE)
    tokens, scalars = 2 * BATCH * SEQUENCE * 8, step.step_scalars
    assert step.curve["forward"][0] == 14 * config.parameters + tokens + scalars
    assert step.curve["step"][0] == 16 * config.parameters + tokens + scalars + 4
    kept = step.activation_bytes - tokens  # the embedding keeps the tokens, which are there anyway
    assert step.curve["backward"][0] >= step.curve["forward"][0] + kept
    assert step.peak == max(step.peaks.values()) == max(max(sizes) for sizes in step.curve.values())


@pytest.mark.parametrize("recipe", ["mixed-adam", "mixed-adam-fp32-grads"])
def test_micro_batches_add_gradients_to_the_peak_and_no_activations(recipe):
    one, two, eight = (training_step(SMALL["gpt"], BATCH, SEQUENCE, recipe, micro_batches=count)
                       for count in (1, 2, 8))  # fmt: skip
    assert one.activations == two.activations == eight.activations
    assert two.peak == eight.peak
    # Gradients of the first micro-batch are there while the second goes forward.
    loss = 4  # of the first micro-batch, still there as well
    assert two.peaks["forward 2"] == one.peaks["forward"] + two.gradients + loss
    twice = training_step(SMALL["gpt"], 2 * BATCH, SEQUENCE, recipe)
    once = 4 + 8 * SEQUENCE  # a number of the loss, and the positions, which all sequences share
    assert twice.activation_bytes - once == 2 * (one.activation_bytes - once)


def test_fp32_gradients_are_two_bytes_more():
    found = {recipe: training_step(SMALL["llama"], BATCH, SEQUENCE, recipe)
             for recipe in ("mixed-adam", "mixed-adam-fp32-grads")}  # fmt: skip
    for recipe, step in found.items():
        assert step.model_state == model_state(step.parameters, recipe).total
    assert found["mixed-adam-fp32-grads"].gradients == 2 * found["mixed-adam"].gradients


@pytest.mark.parametrize("mode", [contextlib.nullcontext, FakeTensorMode])
def test_a_storage_counts_once(mode):
    with mode():
        weight = torch.empty(6, 4)
        tensors = [weight, weight.T, weight[2:], torch.empty(3, dtype=torch.bfloat16)]
    assert storage_bytes(tensors) == 6 * 4 * 4 + 3 * 2
    assert storage_bytes([]) == 0


MEASURED = "'mixed-adam', 'mixed-adam-fp32-grads', 'autocast-adam', 'fp32-adam', 'bf16-adam'"
REFUSED = {
    "batch=0: expected a positive whole number": {"batch": 0},
    "sequence=2.5: expected a positive whole number": {"sequence": 2.5},
    "batch=-1: expected a positive whole number": {"batch": -1},
    "batch=nan: expected a positive whole number": {"batch": float("nan")},
    "batch=True: expected a positive whole number": {"batch": True},
    "sequence=inf: expected a positive whole number": {"sequence": float("inf")},
    "sequence=65: expected at most context=64": {"sequence": 65},
    "config='llama-2-7b': expected a TransformerConfig, such as CONFIGS['llama-2-7b']": {
        "config": "llama-2-7b"},
    "config='llama': expected a TransformerConfig, such as CONFIGS['gpt-2-small']": {"config": "llama"},
    "config=None: expected a TransformerConfig, such as CONFIGS['gpt-2-small']": {"config": None},
    f"recipe='adam': expected one of {MEASURED}": {"recipe": "adam"},
    f"recipe='mixed-8bit-adam': expected one that is measured, not computed only: {MEASURED}": {
        "recipe": "mixed-8bit-adam"},
    "gradient_casts='each': expected one of 'one-at-a-time', 'all-at-once'": {"gradient_casts": "each"},
    "attention='flash': expected one of 'eager', 'fused'": {"attention": "flash"},
    "recompute='some': expected one of 'none', 'selective', 'full'": {"recompute": "some"},
    "fake='no': expected True or False": {"fake": "no"},
    "fake=0: expected True or False": {"fake": 0},
    "device='cuda': expected 'cpu' for fake tensors, or fake=False": {"device": "cuda"},
    "device='cuda:99': expected one that is there; torch finds": {"device": "cuda:99", "fake": False},
    "device='gpu': expected 'cpu', 'cuda', or one of several such as 'cuda:1'": {"device": "gpu"},
    "device='cuda:': expected 'cpu', 'cuda', or one of several such as 'cuda:1'": {"device": "cuda:"},
    "device='meta': expected 'cpu', 'cuda', or one of several such as 'cuda:1'": {
        "device": "meta", "fake": False},
    "device=None: expected 'cpu', 'cuda', or one of several such as 'cuda:1'": {"device": None},
}


@pytest.mark.parametrize(("sentence", "wrong"), REFUSED.items(), ids=REFUSED)
def test_refused(sentence, wrong):
    with pytest.raises(ValueError) as error:
        training_step(**{"config": SMALL["gpt"], "batch": BATCH, "sequence": SEQUENCE, **wrong})
    if "torch finds" in sentence:
        sentence += f" {torch.cuda.device_count()} CUDA devices"
    assert str(error.value) == sentence


def test_what_is_refused_is_refused_before_a_large_model_is_built(monkeypatch):
    monkeypatch.setattr(measured_memory, "_Trainer", None)
    with pytest.raises(ValueError, match="^sequence=2049: expected at most context=2048$"):
        training_step(CONFIGS["gpt-3-175b"], 1, 2049)


def test_rotations_go_on_beyond_the_context():
    config = dataclasses.replace(SMALL["llama"], context=16)
    assert training_step(config, BATCH, SEQUENCE) == training_step(SMALL["llama"], BATCH, SEQUENCE)


def test_whole_floats_and_devices_are_taken():
    step = training_step(SMALL["gpt"], float(BATCH), float(SEQUENCE), device=torch.device("cpu"))
    assert step == training_step(SMALL["gpt"], BATCH, SEQUENCE)


def test_the_recipes_measured_are_recipes_of_the_formulas():
    for recipe in measured_memory.RECIPES:
        assert model_state(1000, recipe).total > 0


@pytest.mark.parametrize(("config", "batch", "sequence"), [
    (TransformerConfig(1, 10**10, 1, 10, learned_positions=False), 1, 8),
    (TransformerConfig(1, 8, 1, 10, learned_positions=False), 10**13, 10**7),
    (TransformerConfig(1, 8, 1, 10, learned_positions=False), 10**20, 1)])  # fmt: skip
def test_what_torch_can_not_count_is_refused(config, batch, sequence):
    with pytest.raises(ValueError, match=r"expected tensors of at most 2\*\*59 elements"):
        measured_memory.training_step(config, batch, sequence)
