"""What needs no ranks: settings, data, schedule, precision."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

from course_lib import corpus, train
from course_lib.train import optimizing, precision, settings
from course_lib.train.data import micro_batches
from course_lib.transformer import GPT, TransformerConfig


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "steps=0: expected a positive whole number"),
        ({"warmup": -1}, "warmup=-1: expected a whole number, 0 or more"),
        ({"learning_rate": 0}, "learning_rate=0: expected a number above 0"),
        ({"max_norm": -1.0}, "max_norm=-1.0: expected a number above 0"),
        ({"dtype": "bfloat16"}, "dtype='bfloat16': expected one of 'auto'"),
        ({"data_parallel": "fsdp"}, "data_parallel='fsdp': expected one of 'buckets', 'ddp', 'step'"),
        ({"bucket_mb": 0}, "bucket_mb=0: expected a number above 0"),
        ({"hidden": 30, "heads": 4}, "heads=4: expected a divisor of hidden=30"),
        ({"ranks": 3, "micro_batches": 2, "batch": 5},
         "batch=5: expected at least 6, a sequence for each of 3 × 2 micro-batches"),
        ({"links": "fast"}, "rate='fast': expected bits per second"),
        ({"stop_after": 0}, "stop_after=0: expected a positive whole number"),
        ({"seed": 2**65}, f"seed={2**65}: expected less than 2**63"),
        ({"quiet": 1}, "quiet=1: expected True or False"),
        ({"dropout": 1.0}, "dropout=1.0: expected a probability"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused(wrong, said):
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        train.Settings(**wrong)


def test_importing_the_package_imports_no_torch():
    code = "import sys, course_lib.train.command as it; it.Settings(); print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


# --- data ---


def test_the_settings_know_the_vocabulary_of_the_corpus():
    assert settings.VOCAB == corpus.VOCAB  # settings can't ask: the corpus needs torch


def parts(step=1, seed=0, batch=13, ranks=1, count=1, sequence=8):
    """The micro-batches of all ranks, in order."""
    tokens = corpus.tokens()
    settings = {"seed": seed, "batch": batch, "sequence": sequence, "ranks": ranks, "count": count}
    return [each for rank in range(ranks) for each in micro_batches(tokens, step, rank=rank, **settings)]


@pytest.mark.parametrize(("ranks", "count"), [(1, 3), (2, 1), (3, 2), (4, 3), (13, 1)])
def test_however_it_is_divided_a_step_has_the_same_sequences_in_the_same_order(ranks, count):
    (whole,) = parts()
    divided = parts(ranks=ranks, count=count)
    assert len(divided) == ranks * count
    assert all(len(inputs) for inputs, _ in divided)
    for index in range(2):
        assert torch.equal(torch.cat([pair[index] for pair in divided]), whole[index])


def test_targets_are_the_bytes_that_follow():
    ((inputs, targets),) = parts()
    assert inputs.shape == targets.shape == (13, 8)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_each_step_and_each_seed_has_a_batch_of_its_own():
    # A seed of 64 bits would not do for both: a CPU's generator takes the lower half.
    of = [(0, 1), (0, 2), (1, 1), (1, 0), (2**32, 1), (0, 2**32 + 1)]
    inputs = [parts(step=step, seed=seed)[0][0] for seed, step in of]
    assert all(not torch.equal(one, other) for i, one in enumerate(inputs) for other in inputs[:i])
    assert torch.equal(parts(step=7)[0][0], parts(step=7)[0][0])


# --- optimizer ---


def test_the_learning_rate_rises_in_a_line_and_falls_along_a_cosine_to_a_tenth():
    rates = [optimizing.learning_rate(step, 100, 0.5, 10) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([0.05 * step for step in range(1, 11)])
    assert rates[54] == pytest.approx(0.5 * (0.1 + 0.9 / 2))  # half of the way down
    assert rates[-1] == pytest.approx(0.05)
    assert rates[9:] == sorted(rates[9:], reverse=True)


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (1, 1), (3, 10)])
def test_short_runs_have_a_learning_rate_too(steps, warmup):
    rates = [optimizing.learning_rate(step, steps, 1.0, warmup) for step in range(1, steps + 1)]
    assert all(0 < rate <= 1 for rate in rates)


def test_matrices_decay_and_biases_and_norms_do_not():
    module = GPT(TransformerConfig(1, 8, 2, vocab=16, context=4))
    decaying, others = optimizing.adamw(module).param_groups
    assert decaying["weight_decay"] > 0 == others["weight_decay"]
    assert all(parameter.dim() >= 2 for parameter in decaying["params"])
    assert all(parameter.dim() == 1 for parameter in others["params"])
    grouped = decaying["params"] + others["params"]
    assert {id(each) for each in grouped} == {id(each) for each in module.parameters()}


# --- precision ---


@pytest.mark.parametrize(
    ("asked", "kind", "all_have_bf16", "type_"),
    [
        ("auto", "cpu", True, "float32"),
        ("auto", "cuda", True, "bf16"),
        ("auto", "cuda", False, "fp16"),  # T4 and V100, or one of them among others
        ("fp16", "cuda", True, "fp16"),
        ("bf16", "cpu", True, "bf16"),
        ("float64", "cuda", False, "float64"),
    ],
)
def test_the_type_that_is_chosen(asked, kind, all_have_bf16, type_):
    assert precision.chosen(asked, kind, all_have_bf16) == type_


def test_bf16_is_refused_where_a_gpu_has_none():
    with pytest.raises(ValueError, match="dtype='bf16': not all of these GPUs have it"):
        precision.chosen("bf16", "cuda", False)


@pytest.mark.parametrize(
    ("capability", "has"), [((7, 0), False), ((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_gpus_before_ampere_have_no_bf16(monkeypatch, capability, has):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert precision.has_bf16(torch.device("cuda")) is has
    assert precision.has_bf16(torch.device("cpu"))
