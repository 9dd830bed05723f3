"""The benchmark for GPUs where there is none: rows from times made up here, and a whole run on the CPU."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import gpu, gpu_report, gpu_steps
from benchmarks.gpu_report import FAILED, LEFT_OUT, MEASURED, Row, Section
from course_lib import timeline
from course_lib.all_reduce_timing import TORCH
from course_lib.hardware import ACCELERATORS
from course_lib.overlap_timing import DDP
from course_lib.timeline import Span

ROOT = Path(gpu.__file__).parent.parent
H100 = {"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85e9, "type": torch.bfloat16, "software": "torch"}
T4 = {"name": "Tesla T4", "memory_bytes": 15.6e9, "type": torch.float16, "software": "torch"}


# --- sections: what goes wrong is a row ---


def one_row(**fields):
    return Row("here", "what", 1, 2.0, "s", 1.0, **fields)


def test_a_failure_is_a_row_and_those_before_it_stay():
    def rows():
        yield one_row()
        raise RuntimeError("Rank 1 raised an error.\nmore of it")

    found = gpu_report.rows_of(Section("here", 10, rows), gpus=1, seconds_left=100)
    assert [row.state for row in found] == [MEASURED, FAILED]
    assert found[1].note == "RuntimeError: Rank 1 raised an error."
    assert gpu_report.status(found) == 1
    assert gpu_report.line(found[1]) == "here        failed: RuntimeError: Rank 1 raised an error."


@pytest.mark.parametrize("section, left", [(0.2, 100), (100, 0.2)])
def test_a_section_that_takes_too_long_is_ended(section, left):
    def rows():
        yield one_row()
        time.sleep(60)

    began = time.monotonic()
    found = gpu_report.rows_of(Section("here", section, rows), gpus=1, seconds_left=left)
    assert time.monotonic() - began < 30
    assert [row.state for row in found] == [MEASURED, FAILED]
    assert "TookTooLong: took over 0 s, and was ended" in found[1].note


def test_limits_leave_the_alarm_as_it_was():
    handler, (seconds, _) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    with gpu_report.limited(50):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(seconds, abs=5)


def test_what_needs_more_gpus_is_left_out_and_that_is_no_failure():
    def rows():
        raise AssertionError("must not run")

    [row] = gpu_report.rows_of(Section("here", 10, rows, ranks=2), gpus=1, seconds_left=100)
    assert gpu_report.line(row) == "here        left out: needs 2 GPUs, and there is one"
    assert gpu_report.status([row]) == 0


def test_without_time_nothing_is_started():
    [row] = gpu_report.rows_of(Section("here", 10, lambda: [one_row()]), gpus=1, seconds_left=0)
    assert (row.state, row.note) == (FAILED, "no time was left for it")


# --- lines ---


def test_a_line_says_what_was_measured_and_how_calm_it_was():
    row = Row("U", "small GPT", 4, 123456.0, "tokens/s", 246912.0, "peak", 0.05, "the ratio is U")
    assert gpu_report.line(row).split() == [
        "U", "small", "GPT", "4", "123.5", "ktokens/s", "246.9", "ktokens/s", "peak", "0.5000", "5%", "the",
        "ratio", "is", "U",
    ]  # fmt: skip
    assert " 55%!" in gpu_report.line(one_row(spread=0.55))
    assert row.as_json()["ratio"] == 0.5
    assert Row("U", "products", 1, 1e12, "FLOP/s").ratio is None


@pytest.mark.parametrize(
    "value, unit, text",
    [(0.0012345, "s", "1.234 ms"), (2.5, "s", "2,500 ms"), (1.6e9, "bytes", "1,600 MB"),
     (790e12, "FLOP/s", "790 TFLOP/s"), (None, "s", "–")],
)  # fmt: skip
def test_amounts_have_units(value, unit, text):
    assert gpu_report.amount(value, unit) == text


# --- what depends on the GPU ---


@pytest.mark.parametrize(
    "capability, dtype",
    [((7, 0), torch.float16), ((7, 5), torch.float16), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)],
)
def test_gpus_without_bf16_multiply_in_fp16(capability, dtype):
    assert gpu_steps.half_type(capability) is dtype


def test_data_sheets_are_those_of_the_course():
    assert set(gpu.DATA_SHEETS.values()) <= set(ACCELERATORS)
    sheets = [gpu.Benchmark("cuda", 1, found, None)._data_sheet() for found in (H100, T4)]
    assert sheets == [989.4e12, 65e12]
    assert gpu.Benchmark("cuda", 1, {**H100, "name": "NVIDIA X1"}, None)._data_sheet() is None


def test_small_gpus_get_small_batches():
    assert [gpu.sizes_for("cuda", found["memory_bytes"]).large.batch for found in (H100, T4)] == [16, 4]


@pytest.mark.parametrize(
    "driver, torchs, expected",
    [
        ([], (0, ""), (0, "there is no GPU here that torch can use")),
        (["GPU-1"], (0, "12.8"), (0, "there is no GPU here that torch can use")),
        (["GPU-1"] * 2, (0, ""), (0, "the driver shows 2 GPUs, but this torch is built for the CPU only")),
        (["GPU-1"] * 4, (4, "12.8"), (4, "")),
        (["GPU-1"] * 4, (2, "12.8"), (2, "")),
    ],
)
def test_which_gpus_can_be_used(monkeypatch, driver, torchs, expected):
    monkeypatch.setattr(gpu, "visible_gpus", lambda: driver)
    monkeypatch.setattr(gpu.doctor, "torch_and_gpus", lambda: torchs)
    assert gpu.devices_here("cuda") == expected


def test_without_a_gpu_nothing_is_made_up(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "visible_gpus", lambda: [])
    monkeypatch.setattr(gpu, "measure", lambda *_: pytest.fail("measured without a GPU"))
    assert gpu.main([]) == gpu.NO_GPU == 3
    assert capsys.readouterr().out == "Nothing was measured: there is no GPU here that torch can use.\n"
    assert gpu.main(["--json"]) == 3
    assert json.loads(capsys.readouterr().out) == {
        "status": 3, "reason": "there is no GPU here that torch can use", "rows": []
    }  # fmt: skip


# --- rows from times made up here ---


class MadeUp:
    """Stands in for ranks.run: what each function would return, in numbers that are easy to follow."""

    def __init__(self, monkeypatch):
        self.calls = []
        monkeypatch.setattr(gpu.measured_utilization, "measure_peak_flops", self.products)

    def products(self, count, sizes, dtype):
        return count * 500e12

    def __call__(self, function, count, *args):
        self.calls.append((function.__name__, count))
        return getattr(self, function.__name__)(count, *args)

    def all_reduces(self, count, sizes, repeats):
        """The last rank is the slowest, and the ring takes twice as long as torch's own."""
        each = [{"ring": [(2.0 + rank) / 1000] * 3, TORCH: [(1.0 + rank / 2) / 1000] * 3}
                for rank in range(count)]  # fmt: skip
        return [[each[rank] for _ in sizes] for rank in range(count)]

    def take_turns(self, count, *arguments):
        if len(arguments) == 2:  # of the noise meter
            return [{"without": [1.0, 1.0], "with": [1.01, 1.01]}] * count
        ways = arguments[3]
        seconds = {way: 0.1 * (place + 1) for place, way in enumerate(ways)}
        return [
            {way: gpu_steps.Timed([seconds[way] + 0.05 * rank] * 3, 0.03, 0.04 if "ring" in way else 0.0)
             for way in ways}
            for rank in range(count)
        ]  # fmt: skip

    def step_memory(self, count, model, recipe):
        return [SimpleNamespace(model_state=16 * model.shape.parameters, activation_bytes=100, peak=300,
                                cuda_peak=330)]  # fmt: skip

    def sharded_state(self, count, model, dtype):
        return [4 * model.shape.parameters + 12 * -(-model.shape.parameters // count)] * count

    def record_step(self, count, *arguments):
        return [
            [Span(rank, "compute", "backward", 0.0, 0.010, "compute", 0),
             Span(rank, "communication", "bucket 0", 0.004, 0.012, "communication", 0)]
            for rank in range(count)
        ]  # fmt: skip


def rows_with(monkeypatch, gpus, found, folder=None):
    benchmark = gpu.Benchmark("cuda", gpus, found, folder)
    benchmark.run = MadeUp(monkeypatch)
    rows = [row for section in benchmark.sections() for row in gpu_report.rows_of(section, gpus, 400)]
    assert [row.note for row in rows if row.state == FAILED] == []
    return rows, benchmark


def test_rows_of_four_gpus(monkeypatch, tmp_path):
    rows, benchmark = rows_with(monkeypatch, 4, H100, tmp_path)
    by_name = {(row.section, row.what, row.ranks, row.beside_what): row for row in rows}
    assert {row.state for row in rows} == {MEASURED} and len(by_name) == len(rows)

    ring = by_name["all-reduce", "the course's ring, 256 MiB", 4, TORCH]
    assert ring.measured == 0.005 and ring.ratio == 2  # of rank 3, which takes longest
    assert ring.note == f"busbw 80.53 GB/s, {TORCH} 161.1"  # 1.5 · 256 MiB in 5 ms
    assert ("all-reduce", "the course's ring, 1024 MiB", 2, TORCH) in by_name

    buckets = by_name["buckets", "small GPT: buckets, the ring", 4, DDP]
    assert buckets.ratio == pytest.approx((0.2 + 0.15) / (0.1 + 0.15))
    assert buckets.note == "75% of communication hidden"

    shape = benchmark.sizes.large.shape
    products = by_name["U", "products of bfloat16 matrices", 4, "by the data sheet"]
    assert products.ratio == pytest.approx(500 / 989.4)
    u = by_name["U", "GPT-2 small's shape", 4, "peak by data sheet"]
    tokens = 4 * 16 * 1024 / (0.1 + 0.15)
    assert u.ratio == pytest.approx(tokens * shape.flops_per_token(1024) / (4 * 989.4e12))
    alone = by_name["U", "GPT-2 small's shape", 1, "peak by products"]
    assert alone.ratio == pytest.approx(16 * 1024 / 0.1 * shape.flops_per_token(1024) / 500e12)

    assert by_name["memory", "GPT-2 small's shape: model state, mixed-adam", 1, "by formula"].ratio == 1
    assert by_name["memory", "GPT-2 small's shape: allocated at most", 1, "tensors counted"].ratio == 1.1
    assert by_name["sharded", "GPT-2 small's shape: model state", 4, "by formula"].ratio == 1
    step = by_name["timeline", "buckets, the ring: hidden, rank 0", 4, "in all"]
    assert step.ratio == pytest.approx(0.75) and step.note == "8 spans of one step; timeline.json"
    assert len(timeline.read_trace(tmp_path / "timeline.json")) == 8
    assert by_name["meter", "a step with a noise meter", 4, "without"].ratio == pytest.approx(1.01)


def test_one_gpu_shows_what_one_can_and_says_so(monkeypatch):
    rows, benchmark = rows_with(monkeypatch, 1, H100)
    left_out = [row.section for row in rows if row.state == LEFT_OUT]
    assert left_out == ["all-reduce", "buckets", "sharded"]
    assert all(row.note == "needs 2 GPUs, and there is one" for row in rows if row.state == LEFT_OUT)
    assert {row.section for row in rows if row.state == MEASURED} == {
        "U", "memory", "streams", "timeline", "meter"
    }  # fmt: skip
    assert {count for _, count in benchmark.run.calls} == {1}
    [step] = [row for row in rows if row.section == "timeline"]
    assert step.what == "copies beside backward: hidden, rank 0" and gpu_steps.COPIED in step.note
    assert gpu_report.status(rows) == 0


def test_without_bf16_no_row_rests_on_bf16(monkeypatch):
    rows, _ = rows_with(monkeypatch, 1, T4)
    memory = [row.what for row in rows if row.section == "memory"]
    assert memory == ["GPT-2 small's shape: model state, fp32-adam", "GPT-2 small's shape: allocated at most"]
    assert [row.what for row in rows if row.unit == "FLOP/s"] == ["products of float16 matrices"]


def test_gpus_that_can_not_start_are_a_failed_row(monkeypatch):
    def run(*arguments, **options):
        raise RuntimeError("CUDA driver is too old")

    monkeypatch.setattr(gpu.ranks, "run", run)
    lines = []
    report = gpu.measure("cuda", 2, None, lines.append)
    assert lines == ["devices     failed: RuntimeError: CUDA driver is too old"]
    assert report["status"] == 1 and [row["state"] for row in report["rows"]] == [FAILED]
    json.dumps(report)


# --- the program ---


@pytest.mark.long
def test_the_whole_program_on_the_cpu(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "--device", "cpu", "--json", "--report",
               str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert report["is_gpu_result"] is False and report["device"] == "cpu"
    table = (tmp_path / "table.txt").read_text()
    assert table.startswith("CPU: not a GPU result.")
    states = {(row["section"], row["state"]) for row in report["rows"]}
    sections = ("all-reduce", "buckets", "U", "memory", "sharded", "streams", "timeline", "meter")
    assert states == {*((section, MEASURED) for section in sections), ("memory", LEFT_OUT)}
    exact = [row["ratio"] for row in report["rows"] if "model state" in row["what"]]
    assert exact == [1.0, 1.0]
    [kept] = [row["ratio"] for row in report["rows"] if row["what"].endswith("activations")]
    assert 0.9 < kept < 1.2  # of a tiny model, in which the loss's few bytes and token numbers show
    spans = timeline.read_trace(tmp_path / "timeline.json")
    assert {span.kind for span in spans} >= {"compute", "communication", "optimizer state"}
