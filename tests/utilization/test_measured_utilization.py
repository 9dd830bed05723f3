"""Parts of a step are measured on ranks, and only where there is a core for each of them."""

import functools
from dataclasses import replace

import pytest
import torch

from course_lib import measured_utilization, measurements, overlap_timing
from course_lib.all_reduce import ring
from course_lib.links import Links
from course_lib.measured_utilization import MeasuredParts, measure_parts, measure_peak_flops, shown
from course_lib.transformer import TransformerConfig
from course_lib.utilization import MOST_UNEXPLAINED, Parts

CONFIG = TransformerConfig(layers=2, hidden=32, heads=2, vocab=256, context=16)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(measured_utilization, "usable_cores", lambda: 2)
    monkeypatch.setenv("COURSE_DEVICE", "cpu")


def test_the_parts_are_those_of_a_step():
    measured = measure_parts(CONFIG, 4, 16, 2, bucket_mb=0.05, first_bucket_mb=0.05, repeats=3, sizes=(64,))
    parts = measured.parts
    assert parts.flops == 2 * 4 * 16 * CONFIG.flops_per_token(16)
    assert measured.tokens_per_second == pytest.approx(2 * 4 * 16 / parts.step)
    assert sum(parts.shares().values()) == pytest.approx(1)
    assert all(seconds > 0 for seconds in (parts.compute, parts.exposed, parts.optimizer, parts.data))
    assert measured.spread >= 0
    assert (measured.repeats, measured.setting) == (3, "2 ranks, buckets of 0.05 MiB, overlapped")


def test_one_rank_alone():
    parts = measure_parts(CONFIG, batch=1, sequence=16, count=1, repeats=1, sizes=(64,)).parts
    assert parts.idle == 0
    assert parts.flops == 16 * CONFIG.flops_per_token(16)


def test_what_ranks_multiply_is_counted_for_all_of_them():
    rates = [{2: [1.0, 5.0, 9.0], 4: [7.0, 7.0, 7.0]}, {2: [1.0, 5.0, 0.0], 4: [1.0, 1.5, 2.0]}]
    assert measured_utilization._best(rates) == 9  # 2, 10 and 9; 8, 8.5 and 9
    assert measure_peak_flops(1, sizes=(64,), dtype=torch.float64, repeats=2) > 0


@pytest.mark.parametrize("measure", [
    lambda: measure_peak_flops(3), lambda: measure_parts(CONFIG, batch=1, sequence=16, count=3)])  # fmt: skip
def test_ranks_that_share_a_core_are_not_measured(measure):
    with pytest.raises(ValueError, match="count=3: expected at most 2 ranks, one for each core"):
        measure()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Reads the points of a working copy, which is the current folder."""
    (tmp_path / ".course").mkdir()
    (tmp_path / ".course" / "manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return lambda: measurements.read_file(tmp_path / measurements.FILE_NAME)


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine where up to two ranks can have a GPU each, as far as choosing goes."""
    kind = lambda count: "cuda" if count <= 2 else "cpu"  # noqa: E731
    monkeypatch.setattr(measured_utilization.ranks, "device_kind", kind)


def test_ranks_with_links_are_on_the_cpu_and_need_a_core_each_where_there_are_gpus_too(two_gpus, monkeypatch):
    monkeypatch.setattr(measured_utilization, "usable_cores", lambda: 1)
    with pytest.raises(ValueError, match="count=2: expected at most 1 ranks, one for each core"):
        measure_parts(CONFIG, batch=1, sequence=16, count=2, links=Links("400mbit"))


@pytest.mark.parametrize(("count", "links", "device"), [
    (1, None, "cuda"), (2, None, "cuda"), (3, None, "cpu"), (2, Links("400mbit"), "cpu")])  # fmt: skip
def test_parts_say_where_their_ranks_ran(two_gpus, kept, monkeypatch, count, links, device):
    monkeypatch.setattr(measured_utilization, "usable_cores", lambda: 3)
    seconds = {name: 1.0 for name in ("step", "compute", "optimizer", "data", "beside", "wait")}
    of_ranks = [({64: [1e9]}, [seconds])] * count
    monkeypatch.setattr(measured_utilization.ranks, "run", lambda *given, **named: of_ranks)
    shown(measure_parts(CONFIG, batch=1, sequence=16, count=count, links=links, repeats=1))
    assert {point.device for point in kept()} == {device}


@pytest.mark.parametrize("changes", [{"batch": 0}, {"sequence": 17}, {"repeats": 0}, {"count": 0}])
def test_bad_arguments_are_refused(changes):
    with pytest.raises(ValueError, match="expected"):
        measure_parts(**{"config": CONFIG, "batch": 1, "sequence": 16, "count": 1} | changes)


def test_wait_is_split_into_what_the_network_takes_and_what_the_late_rank_costs():
    common = {"step": 4.0, "compute": 2.0, "optimizer": 0.5, "data": 0.25, "beside": 2.25}
    found = measured_utilization._Round.of_ranks([common | {"wait": 3.0}, common | {"wait": 1.0}])
    assert (found.exposed, found.idle, found.compute, found.slowed) == (1, 1, 2, 0.25)


# --- What is shown of them, and kept ---

CONDITIONS = {
    "ranks": 2, "bucket_mb": "0.5", "first_bucket_mb": "0.5", "overlap": False, "all_reduce": "ring",
    "parameters": overlap_timing.CONFIG.parameters, "batch": 4, "sequence": 128,
}  # fmt: skip
PARTS = Parts(2e9, 1e9, step=1.0, compute=0.6, exposed=0.3, optimizer=0.05, data=0.01, idle=0.02)
CALM = MeasuredParts(PARTS, 1024.0, 0.1, 5, CONDITIONS, Links("400mbit"))
BUSY = replace(CALM, spread=0.9)


def overlapped(measured):
    return replace(measured, conditions=CONDITIONS | {"overlap": True})


def test_own_parts_are_shown_and_kept_with_their_conditions(kept):
    assert shown(CALM) == (PARTS, "2 ranks, 400 Mbit/s links, buckets of 0.5 MiB, not overlapped",
                           "measured here", "")  # fmt: skip
    shown(overlapped(CALM))
    points = kept()
    assert len(measurements.newest(points)) == len(points) == 16  # no setting takes another's place
    as_chosen = {"overlap": True, "bucket_mb": "0.5", "ranks": 2}.items()
    assert sum(as_chosen <= point.conditions.items() for point in points) == 8
    assert {(point.quantity, point.repeats, point.spread) for point in points} == {("step-parts", 5, 0.1)}


@pytest.mark.parametrize("overlap", [False, True])
def test_on_a_busy_machine_recorded_parts_of_the_same_setting_stand_in(kept, overlap):
    found = shown(overlapped(BUSY) if overlap else BUSY)
    recorded = {point.conditions["part"]: point.value for point in measurements.recorded("step-parts")
                if point.conditions["overlap"] == overlap}  # fmt: skip
    assert found.parts.step == recorded["step"]
    assert found.parts.utilization == pytest.approx(recorded["at_peak"] / recorded["step"])
    assert found.label.startswith("recorded on ")
    busy = "This machine was busy: repeats of the step differ by 90%. So these parts were recorded on "
    assert found.note.startswith(busy)
    assert found.setting.endswith("overlapped" if overlap else "not overlapped")
    assert kept() == []


@pytest.mark.parametrize("other", [
    replace(BUSY, conditions=CONDITIONS | {"ranks": 1}), replace(BUSY, links=None),
    replace(BUSY, conditions=CONDITIONS | {"bucket_mb": "25"}), replace(BUSY, links=Links("800mbit")),
    replace(BUSY, device="cuda"),
])  # fmt: skip
def test_of_another_setting_nothing_stands_in(other):
    found = shown(other)
    assert (found.parts, found.label) == (PARTS, "measured here, on a busy machine")
    assert found.note.endswith("Do not trust these parts.")


@pytest.mark.parametrize("step, note", [
    (1.02, ""),
    (1.10, "The parts leave 11% of the step unexplained, and 5% is the most that should be: do not trust"),
    (0.90, "The parts are together 9% longer than the step, and 5% is the most that should be: do not trust"),
])  # fmt: skip
def test_what_is_left_unexplained_is_said(step, note):
    found = shown(replace(CALM, parts=replace(PARTS, step=step)))
    assert found.note.startswith(note) and bool(found.note) == bool(note)


@pytest.mark.parametrize("overlap", [False, True])
def test_the_recorded_parts_can_be_trusted(overlap):
    recorded = [each for each in measurements.recorded("step-parts") if each.conditions["overlap"] == overlap]
    seconds = {point.conditions["part"]: point.value for point in recorded}
    parts = Parts(1.0, seconds.pop("at_peak"), **seconds)
    assert parts.is_explained, f"{parts.unexplained / parts.step:.0%} over {MOST_UNEXPLAINED:.0%}"
    assert {point.repeats >= 5 for point in recorded} == {True}


def test_an_all_reduce_has_a_name():
    class Mine:
        def __call__(self, row):
            pass

    several = ring, functools.partial(ring, group=None), Mine()
    assert list(map(measured_utilization._name, several)) == ["ring", "ring", "Mine"]
