"""Memory by formula against memory measured: models of three families, every way to keep activations.

    python benchmarks/memory.py

Measured is a training step under FakeTensorMode: every storage counted, none of it allocated.  The formulas
are those of course_lib.memory and course_lib.activations.  Ratios do not depend on the machine; only the last
table's seconds do.  The exit status is 1 if a row misses its bar.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from dataclasses import dataclass

from course_lib.activations import layer_terms, model_terms
from course_lib.measured_memory import StepMemory, training_step
from course_lib.memory import model_state
from course_lib.transformer import CONFIGS, TransformerConfig

TOLERANCE = 0.02  # of a layer's and a model's activations; the model's state must agree to the byte
MASK_BYTES = 2  # fake tensors follow the CPU's kernels, which keep dropout masks as wide as activations

# Attention, recomputation and dropout.
CASES = {
    "eager": ("eager", "none", 0.0),
    "fused": ("fused", "none", 0.0),
    "dropout": ("eager", "none", 0.1),
    "fused+drop": ("fused", "none", 0.1),
    "selective": ("eager", "selective", 0.0),
    "full": ("fused", "full", 0.0),
}


@dataclass(frozen=True)
class Row:
    """A model's step: its activations in one case, its model state by one recipe."""

    model: str
    batch: int
    sequence: int
    case: str
    recipe: str = "mixed-adam"

    @property
    def config(self) -> TransformerConfig:
        return dataclasses.replace(CONFIGS[self.model], dropout=CASES[self.case][2])


ROWS = [
    Row("gpt-2-small", 8, 1024, "eager"),
    Row("gpt-2-small", 8, 1024, "dropout"),
    Row("gpt-2-small", 8, 1024, "fused+drop"),
    Row("gpt-2-small", 2, 512, "selective", "bf16-adam"),
    Row("gpt-2-medium", 4, 1024, "full"),
    Row("gpt-2-large", 1, 777, "dropout"),
    Row("gpt-2-xl", 1, 1024, "fused", "autocast-adam"),
    Row("llama-2-7b", 1, 2048, "eager"),
    Row("llama-2-7b", 2, 4096, "fused"),
    Row("llama-2-7b", 1, 2048, "full"),
    Row("llama-3-8b", 1, 8192, "fused"),
    Row("llama-3-8b", 1, 1024, "dropout"),
    Row("llama-3-8b", 1, 4096, "fused+drop"),
    Row("mistral-7b-v0.1", 3, 500, "eager"),
    Row("qwen2.5-0.5b", 4, 2048, "fused"),
    Row("qwen2.5-0.5b", 1, 1024, "eager", "fp32-adam"),
    Row("qwen2.5-7b", 1, 4096, "selective"),
    Row("qwen2.5-7b", 1, 4096, "full", "bf16-adam"),
]


def measure(row: Row) -> StepMemory:
    attention, recompute, _ = CASES[row.case]
    return training_step(
        row.config, row.batch, row.sequence, row.recipe, attention=attention, recompute=recompute)


def ratios(row: Row, measured: StepMemory) -> tuple[float, float | None, float | None]:
    """Measured over formula: model state, one layer's activations, the whole model's.

    The activations' formulas are for 16-bit activations all through, so for steps in bf16.
    """
    state = model_state(row.config.parameters, row.recipe).total
    if row.recipe in ("autocast-adam", "fp32-adam"):
        return measured.model_state / state, None, None
    attention, recompute, _ = CASES[row.case]
    options = {"attention": attention, "mask_bytes": MASK_BYTES}
    layer = layer_terms(row.config, row.batch, row.sequence, recompute, **options)
    model = model_terms(row.config, row.batch, row.sequence, recompute, **options)
    kept = sum(measured.layer(row.config.layers - 1).values())
    return (
        measured.model_state / state,
        kept / sum(layer.values()),
        measured.activation_bytes / sum(model.values()),
    )


def print_table() -> bool:
    """One line for each row; whether all of them hold."""
    print(f"{'model':16} {'b':>2} {'s':>5} {'case':10} {'recipe':14}"
          f"{'state GB':>10} {'ratio':>9} {'kept GB':>9} {'a layer':>8} {'model':>8}")
    good = True
    for row in ROWS:
        measured = measure(row)
        state, *kept = ratios(row, measured)
        holds = state == 1 and all(ratio is None or abs(ratio - 1) <= TOLERANCE for ratio in kept)
        columns = "".join(f" {'–' if ratio is None else f'{ratio:.4f}':>8}" for ratio in kept)
        print(f"{row.model:16} {row.batch:2} {row.sequence:5} {row.case:10} {row.recipe:14}"
              f"{measured.model_state / 1e9:10.3f} {state:9.7f} {measured.activation_bytes / 1e9:9.3f}"
              f"{columns}  {'ok' if holds else 'MISSED'}", flush=True)
        good &= holds
    return good


STEP_OF_7B = """
import json, resource, sys, time
began = time.perf_counter()
from course_lib.measured_memory import training_step
from course_lib.transformer import CONFIGS
step = training_step(CONFIGS["llama-2-7b"], 1, 2048, gradient_casts=sys.argv[1])
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps({
    "seconds": time.perf_counter() - began,
    "processor": time.process_time(),
    "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
    "peak": step.peaks["step"] / step.parameters}))
"""


def print_7b() -> bool:
    """Peaks of the two ways to step, and what measuring one costs in a process of its own, with imports.

    The bar is on processor time, which is what the step takes where nothing else runs: it uses one core.
    """
    print("\nA step of Llama-2-7B's shape, 2048 tokens, mixed-adam; bars: 15 s of one core, 1 GiB")
    good = True
    for casts, peak in (("all-at-once", 20), ("one-at-a-time", 16)):
        command = [sys.executable, "-c", STEP_OF_7B, casts]
        step = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=1800).stdout)
        holds = step["processor"] < 15 and step["resident"] < 2**30 and abs(step["peak"] - peak) < 0.1
        print(f"gradients cast {casts:14} peak of the update {step['peak']:6.3f} bytes per parameter"
              f"   measured in {step['seconds']:4.1f} s ({step['processor']:.1f} s of processor time), "
              f"{step['resident'] / 2**30:.2f} GiB resident"
              f"  {'ok' if holds else 'MISSED'}", flush=True)
        good &= holds
    return good


def main() -> int:
    return 0 if all([print_table(), print_7b()]) else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    sys.exit(main())
