"""The course's claims on GPUs: on however many there are, in less than eight minutes, in one table.

    python benchmarks/gpu.py                          # on one GPU it leaves out what needs two, and says so
    python benchmarks/gpu.py --report FOLDER          # also writes table.txt, report.json and timeline.json
    python benchmarks/gpu.py --json
    python benchmarks/gpu.py --device cpu             # tiny sizes: shows that this program runs, nothing else

The ring against NCCL's own all-reduce; buckets against torch's DistributedDataParallel; U of a small GPT and
of GPT-2's shape; memory by the allocator's count against the formulas; a recorded step; what a noise meter
costs.  Whatever is compared takes turns in one run, and times are medians.  Mixed precision is bf16, or fp16
with a scaled loss where the GPU has no bf16.

Exit status: 0 if all that the GPUs here can show was measured, 1 if some of it failed (its row says why),
3 if there is no GPU.  (Not yet run on a GPU: only on the CPU, by a test.)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import gpu_steps, noise_meter
from benchmarks.gpu_report import (
    FAILED,
    HEADER,
    LEFT_OUT,
    MEASURED,
    Row,
    Section,
    failed,
    limited,
    line,
    rows_of,
    status,
)
from benchmarks.gpu_steps import Model, Timed
from course_lib import activations, corpus, cost_model, doctor, measured_utilization, memory, ranks, timeline
from course_lib.all_reduce_timing import TORCH, slowest
from course_lib.hardware import ACCELERATORS
from course_lib.machine import usable_cores
from course_lib.measurements import machine, spread
from course_lib.overlap_timing import CONFIG, DDP
from course_lib.ranks.devices import visible_gpus
from course_lib.transformer import CONFIGS, TransformerConfig

NO_GPU = 3
SECONDS = 440  # for everything: then what is under way is ended, which takes a moment
_SECONDS_WITHOUT_PROGRESS = 40
_SECONDS_TO_START = 120  # the first time, CUDA and NCCL may take long
_LARGE_MEMORY = 38e9  # bytes: GPUs with more train on larger batches
_KIB, _MIB = 2**10, 2**20

# As the driver names them; the key of hardware.ACCELERATORS.
DATA_SHEETS = {
    "Tesla T4": "t4",
    "NVIDIA L4": "l4",
    "NVIDIA A10": "a10",
    "NVIDIA L40S": "l40s",
    "Tesla V100-SXM2-16GB": "v100-16gb",
    "Tesla V100-SXM2-32GB": "v100-32gb",
    "NVIDIA A100-SXM4-40GB": "a100-40gb",
    "NVIDIA A100-PCIE-40GB": "a100-40gb",  # the same FLOP/s
    "NVIDIA A100-SXM4-80GB": "a100-80gb",
    "NVIDIA A100 80GB PCIe": "a100-80gb",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H200": "h200",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
}


@dataclass(frozen=True)
class Sizes:
    """What is measured: bytes of all-reduces, sides of square matrices, models, MiB of a bucket, repeats."""

    all_reduces: tuple[int, ...]
    products: tuple[int, ...]
    small: Model
    large: Model
    bucket_mb: float
    repeats: int


def sizes_for(device: str, memory_bytes: float) -> Sizes:
    """Those for GPUs with so much memory each, or tiny ones for the CPU."""
    if device == "cpu":
        tiny = TransformerConfig(layers=2, hidden=32, heads=2, vocab=corpus.VOCAB, context=16)
        wide = TransformerConfig(layers=2, hidden=64, heads=2, vocab=corpus.VOCAB, context=16)
        return Sizes((4 * _KIB, 64 * _KIB), (64,), Model("small GPT", tiny, 2, 16),
                     Model("larger GPT", wide, 2, 16), 0.05, 3)  # fmt: skip
    batch = 16 if memory_bytes > _LARGE_MEMORY else 4
    return Sizes(
        (64 * _KIB, _MIB, 16 * _MIB, 256 * _MIB, 1024 * _MIB), (4096, 8192),
        Model("small GPT", CONFIG, 32, CONFIG.context),
        Model("GPT-2 small's shape", CONFIGS["gpt-2-small"], batch, 1024), 25.0, 15,
    )  # fmt: skip


class Benchmark:
    """The sections, on ``gpus`` devices of a kind."""

    def __init__(self, device: str, gpus: int, found: dict, folder: Path | None):
        self.device, self.gpus, self.folder = device, gpus, folder
        self.name, self.dtype = found["name"], found["type"]
        self.sizes = sizes_for(device, found["memory_bytes"])

    def sections(self) -> list[Section]:
        return [
            Section("all-reduce", 90, self.all_reduce, ranks=2),
            Section("buckets", 120, self.buckets, ranks=2),
            Section("U", 120, self.utilization),
            Section("memory", 45, self.memory),
            Section("sharded", 30, self.sharded, ranks=2),
            Section("streams", 45, self.streams),
            Section("timeline", 45, self.timeline),
            Section("meter", 45, self.meter),
        ]

    def run(self, function: Any, count: int, *args: Any) -> list[Any]:
        return ranks.run(function, count, *args, device=self.device, timeout=_SECONDS_WITHOUT_PROGRESS)

    def all_reduce(self) -> Iterator[Row]:
        """As the host sees one call, from a barrier until the device is done."""
        for count in sorted({2, self.gpus}):
            of_ranks = self.run(gpu_steps.all_reduces, count, self.sizes.all_reduces, self.sizes.repeats)
            for size, times in zip(self.sizes.all_reduces, zip(*of_ranks, strict=True), strict=True):
                ours, theirs = (slowest(each[name] for each in times) for name in ("ring", TORCH))
                rates = [cost_model.bus_bandwidth("all-reduce", size, median(seconds), count) / 1e9
                         for seconds in (ours, theirs)]  # fmt: skip
                yield Row("all-reduce", f"the course's ring, {_size(size)}", count, median(ours), "s",
                          median(theirs), TORCH, spread(ours),
                          f"busbw {rates[0]:.4g} GB/s, {TORCH} {rates[1]:.4g}")  # fmt: skip

    def buckets(self) -> Iterator[Row]:
        """A recorded DDP calls a hook in Python, so its time is not DDP's, and only its shares are shown."""
        ways = (DDP, gpu_steps.RING, gpu_steps.SAME, gpu_steps.ALONE)
        for model in (self.sizes.small, self.sizes.large):
            timed = self._timed(model, self.gpus, ways)
            recorded = self._timed(model, self.gpus, (gpu_steps.DDP_RECORDED,))[gpu_steps.DDP_RECORDED]
            for way in ways:
                of_way = recorded if way == DDP else timed[way]
                yield Row("buckets", f"{model.name}: {way}", self.gpus, median(timed[way].seconds), "s",
                          median(timed[DDP].seconds), DDP, spread(timed[way].seconds),
                          _hidden(of_way))  # fmt: skip

    def utilization(self) -> Iterator[Row]:
        """The ratio of a model's row is its U: of what a data sheet says, and of what products reach here."""
        for count in sorted({1, self.gpus}):
            products = measured_utilization.measure_peak_flops(
                count, sizes=self.sizes.products, dtype=self.dtype)
            sheet = self._data_sheet() and count * self._data_sheet()
            yield Row("U", f"products of {str(self.dtype).removeprefix('torch.')} matrices", count, products,
                      "FLOP/s", sheet, "by the data sheet",
                      note="" if sheet else f"no data sheet of {self.name} in the course")  # fmt: skip
            for model in (self.sizes.small, self.sizes.large):
                way = gpu_steps.ALONE if count == 1 else gpu_steps.RING
                seconds = self._timed(model, count, (way,))[way].seconds
                rate = count * model.batch * model.sequence / median(seconds)
                flops = model.shape.flops_per_token(model.sequence)
                peaks = {"peak by products": products, "peak by data sheet": sheet}
                for name, peak in ((name, peak) for name, peak in peaks.items() if peak):
                    yield Row("U", model.name, count, rate, "tokens/s", peak / flops, name, spread(seconds),
                              f"the ratio is U; {way}")  # fmt: skip

    def memory(self) -> Iterator[Row]:
        """Allocated: torch.cuda.max_memory_allocated."""
        recipe = "fp32-adam" if self.dtype == torch.float16 else "mixed-adam"  # which is bf16's
        model = self.sizes.large._replace(batch=4)
        [step] = self.run(gpu_steps.step_memory, 1, model, recipe)
        state = memory.model_state(model.shape.parameters, recipe).total
        yield Row("memory", f"{model.name}: model state, {recipe}", 1, step.model_state, "bytes", state,
                  "by formula")  # fmt: skip
        kept = activations.model_bytes(model.shape, model.batch, model.sequence, attention="fused")
        if recipe == "mixed-adam":
            yield Row("memory", f"{model.name}: activations", 1, step.activation_bytes, "bytes", kept,
                      "by formula")  # fmt: skip
        if step.cuda_peak is None:
            yield Row("memory", "the CUDA allocator's peak", 1, note="needs a GPU", state=LEFT_OUT)
            return
        yield Row("memory", f"{model.name}: allocated at most", 1, step.cuda_peak, "bytes", step.peak,
                  "tensors counted", note="the rest: kernels' scratch memory, rounding")  # fmt: skip
        if recipe == "mixed-adam":
            yield Row("memory", f"{model.name}: allocated at most", 1, step.cuda_peak, "bytes",
                      state + kept, "state + activations", note="gradients are not there yet, those of the "
                      "logits are not in the formula")  # fmt: skip

    def streams(self) -> Iterator[Row]:
        """One GPU, whose buckets go to the host and back in the place of an all-reduce."""
        ways = (gpu_steps.COPIES_IN_TURN, gpu_steps.COPIES, gpu_steps.ALONE)
        timed = self._timed(self.sizes.large, 1, ways)
        for way in ways:
            what = f"; {gpu_steps.COPIED}" if timed[way].communication else ""
            yield Row("streams", way, 1, median(timed[way].seconds), "s",
                      median(timed[gpu_steps.COPIES_IN_TURN].seconds), gpu_steps.COPIES_IN_TURN,
                      spread(timed[way].seconds), _hidden(timed[way]) + what)  # fmt: skip

    def sharded(self) -> Iterator[Row]:
        """The recipe needs 2 bytes for a weight, whichever 16-bit type it is."""
        model, dtype = self.sizes.large, self.dtype if self.dtype.itemsize == 2 else torch.bfloat16
        held = self.run(gpu_steps.sharded_state, self.gpus, model, dtype)[0]
        state = memory.model_state(model.shape.parameters, zero_stage=1, ranks=self.gpus).total
        yield Row("sharded", f"{model.name}: model state", self.gpus, held, "bytes", state, "by formula",
                  note="AdamW sharded over the ranks, ZeRO-1")  # fmt: skip

    def timeline(self) -> Iterator[Row]:
        way = gpu_steps.RING if self.gpus > 1 else gpu_steps.COPIES
        of_ranks = self.run(gpu_steps.record_step, self.gpus, self.sizes.large, self.dtype,
                            self.sizes.bucket_mb, way)  # fmt: skip
        spans = [span for own in of_ranks for span in own]
        hidden, exposed = (each(spans)[0] for each in (timeline.hidden_seconds, timeline.exposed_seconds))
        notes = [f"{len(spans)} spans of one step", *([gpu_steps.COPIED] if self.gpus == 1 else [])]
        if self.folder is not None:
            notes.append(timeline.save_trace(spans, self.folder / "timeline.json").name)
        yield Row("timeline", f"{way}: hidden, rank 0", self.gpus, hidden, "s", hidden + exposed, "in all",
                  note="; ".join(notes))  # fmt: skip

    def meter(self) -> Iterator[Row]:
        for count in sorted({1, self.gpus}):
            of_ranks = self.run(noise_meter.take_turns, count, noise_meter.HELD, 2 * self.sizes.repeats)
            without, with_meter = (
                slowest(each[name] for each in of_ranks) for name in (noise_meter.WITHOUT, noise_meter.WITH)
            )
            yield Row("meter", "a step with a noise meter", count, median(with_meter), "s", median(without),
                      "without", spread(with_meter))  # fmt: skip

    def _timed(self, model: Model, count: int, ways: tuple[str, ...]) -> dict[str, Timed]:
        """Of the slowest rank in each step; hidden and exposed of rank 0."""
        of_ranks = self.run(gpu_steps.take_turns, count, model, self.dtype, self.sizes.bucket_mb, ways,
                            self.sizes.repeats)  # fmt: skip
        return {
            way: of_ranks[0][way]._replace(seconds=slowest(each[way].seconds for each in of_ranks))
            for way in ways
        }

    def _data_sheet(self) -> float | None:
        """Dense FLOP/s of one device in the type that it multiplies in, where a source has it."""
        if self.name not in DATA_SHEETS:
            return None
        card = ACCELERATORS[DATA_SHEETS[self.name]]
        return card.bf16_flops if self.dtype == torch.bfloat16 else card.fp16_flops


def _hidden(timed: Timed) -> str:
    if not timed.communication:
        return ""
    return f"{timed.hidden / timed.communication:.0%} of communication hidden"


def _size(bytes: int) -> str:
    return f"{bytes // _MIB} MiB" if bytes >= _MIB else f"{bytes // _KIB} KiB"


def devices_here(device: str) -> tuple[int, str]:
    """How many devices can be used, and where there is none the reason."""
    if device == "cpu":
        return min(2, usable_cores()), ""
    driver, (usable, build) = len(visible_gpus()), doctor.torch_and_gpus()
    if driver and usable:
        return min(driver, usable), ""
    if driver and not build:
        return 0, f"the driver shows {driver} GPUs, but this torch is built for the CPU only"
    return 0, "there is no GPU here that torch can use"


def measure(device: str, gpus: int, folder: Path | None, show: Callable[[str], object]) -> dict:
    """Measure everything on so many devices: lines of the table go to ``show``, and all of it is returned."""
    began = time.monotonic()
    report = {
        "device": device, "is_gpu_result": device == "cuda", "gpus": gpus, "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
    rows = []
    try:
        with limited(_SECONDS_TO_START):
            found = ranks.run(gpu_steps.describe, gpus, device=device, timeout=_SECONDS_WITHOUT_PROGRESS)[0]
    except Exception as error:
        rows.append(failed(Section("devices", _SECONDS_TO_START, tuple, gpus), error))
        show(line(rows[0]))
    else:
        report |= {**found, "type": str(found["type"]).removeprefix("torch.")}
        show(title(report))
        show(HEADER)
        for section in Benchmark(device, gpus, found, folder).sections():
            of_section = rows_of(section, gpus, SECONDS - (time.monotonic() - began))
            rows += of_section
            for row in of_section:
                show(line(row))
    return report | {
        "seconds": time.monotonic() - began, "rows": [row.as_json() for row in rows], "status": status(rows)
    }


def title(report: dict) -> str:
    """What the table stands under; on the CPU it says first that this is no result."""
    lines = []
    if not report["is_gpu_result"]:
        lines = ["CPU: not a GPU result. Tiny sizes, which show that this program runs and no more.", ""]
    links = doctor.link_summary(doctor.run_program) if report["gpus"] > 1 else ""
    return "\n".join([
        *lines,
        f"{report['gpus']} × {report['name']}{links}, {report['software']}; products in {report['type']}",
        f"{report['machine']}, {report['date']}", "",
    ])  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the course's claims on the GPUs of this machine.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: tiny sizes on two ranks, to see that the program runs")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON in the place of the table")
    parser.add_argument("--report", type=Path, metavar="FOLDER",
                        help="also write table.txt, report.json and timeline.json there")  # fmt: skip
    arguments = parser.parse_args(argv)
    gpus, reason = devices_here(arguments.device)
    if not gpus:
        print(json.dumps({"status": NO_GPU, "reason": reason, "rows": []}) if arguments.json
              else f"Nothing was measured: {reason}.")  # fmt: skip
        return NO_GPU
    os.environ["COURSE_DEVICE"] = arguments.device
    if arguments.report is not None:
        arguments.report.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []

    def show(text: str) -> None:
        lines.append(text)
        if not arguments.json:
            print(text, flush=True)

    # What ranks print goes to where sys.stdout is, and must not come between JSON.
    with contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext():
        report = measure(arguments.device, gpus, arguments.report, show)
    show(f"\n{_verdict(report)} In {report['seconds']:.0f} s.")
    text = json.dumps(report, indent=1)
    if arguments.json:
        print(text)
    if arguments.report is not None:
        (arguments.report / "report.json").write_text(text + "\n", encoding="utf-8")
        (arguments.report / "table.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return report["status"]


def _verdict(report: dict) -> str:
    states = [row["state"] for row in report["rows"]]
    return f"Rows: {', '.join(f'{states.count(state)} {state}' for state in (MEASURED, LEFT_OUT, FAILED))}."


if __name__ == "__main__":
    sys.exit(main())
