"""Who gets which device, with GPUs that the tests make up: no GPU is needed, and none is touched."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from course_lib import ranks
from course_lib.ranks import devices, torchrun
from course_lib.ranks.diagnosis import RankView, explain

GPUS = ["GPU-aa1", "GPU-ab2", "GPU-bc3"]


@pytest.fixture
def three_gpus(tmp_path, monkeypatch):
    """A machine whose nvidia-smi lists three GPUs."""
    program = tmp_path / "nvidia-smi"
    lines = ["#!/bin/sh", f"echo asked >> {tmp_path}/asked", *(f"echo {gpu}" for gpu in GPUS)]
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    for name in ("CUDA_VISIBLE_DEVICES", "COURSE_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("chosen", "visible"),
    [
        (None, GPUS),
        ("", []),
        ("1", ["GPU-ab2"]),
        ("2,0", ["GPU-bc3", "GPU-aa1"]),
        ("GPU-b", ["GPU-bc3"]),
        ("0,7,1", ["GPU-aa1"]),
        ("GPU-a", []),
        ("-1", []),
    ],
)
def test_what_cuda_visible_devices_leaves(chosen, visible):
    assert devices.visible_among(GPUS, chosen) == visible


@pytest.mark.parametrize(
    ("count", "asked", "variable", "kind"),
    [
        (3, "auto", None, "cuda"),
        (4, "auto", None, "cpu"),
        (1, "auto", "cpu", "cpu"),
        (2, "cpu", "cuda", "cpu"),
        (2, "cuda", "cpu", "cuda"),
    ],
)
def test_gpus_are_used_where_every_rank_can_have_one(three_gpus, monkeypatch, count, asked, variable, kind):
    if variable:
        monkeypatch.setenv("COURSE_DEVICE", variable)
    assert ranks.device_kind(count, asked) == kind


def test_too_few_gpus_are_said(three_gpus, monkeypatch):
    with pytest.raises(ValueError, match="4 ranks needs 4 GPUs; this process can use 3"):
        ranks.device_kind(4, "cuda")
    monkeypatch.setenv("COURSE_DEVICE", "gpu")
    with pytest.raises(ValueError, match="COURSE_DEVICE='gpu'"):
        ranks.device_kind(1)


def test_a_part_of_a_gpu_is_said_where_gpus_are_asked_for(three_gpus, monkeypatch):
    """MIG: nvidia-smi lists whole GPUs, and Slurm may give a learner a part of one."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-0f1")
    assert ranks.device_kind(1) == "cpu"
    monkeypatch.setenv("COURSE_DEVICE", "cuda")
    with pytest.raises(ValueError, match=r"can use 0\. CUDA_VISIBLE_DEVICES names 'MIG-0f1', .*\(MIG\)"):
        ranks.device_kind(1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-ab,-1")
    with pytest.raises(ValueError, match="can use 1$"):
        ranks.device_kind(2)


def test_ranks_on_gpus_meet_on_this_machine_alone(three_gpus, tmp_path):
    with devices.leased(2, "cuda", timeout=1) as found:
        names = {found.environment[f"{backend}_SOCKET_IFNAME"] for backend in ("GLOO", "NCCL")}
    assert names == {devices.loopback()}
    assert (tmp_path / "asked").read_text() == "asked\n"  # starting nvidia-smi takes a while


def test_a_machine_without_gpus_computes_on_its_cores(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("COURSE_DEVICE", raising=False)
    assert devices.visible_gpus() == [] and ranks.device_kind(1) == "cpu"


def test_a_driver_that_does_not_answer_counts_as_no_gpu(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho NVIDIA-SMI has failed\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert devices.visible_gpus() == []


def test_leases_do_not_overlap_and_end(three_gpus, capsys):
    with devices.leased(2, "cuda", timeout=1) as first:
        assert first.kind == "cuda" and first.environment["CUDA_VISIBLE_DEVICES"] == "GPU-aa1,GPU-ab2"
        with devices.leased(1, "cuda", timeout=1) as second:
            assert second.environment["CUDA_VISIBLE_DEVICES"] == "GPU-bc3"
        with pytest.raises(ranks.RanksError, match="Waited 1.2 s for 2 free GPUs"):
            with devices.leased(2, "cuda", timeout=1.2):
                pass
        assert "Waiting for 2 free GPUs: other notebooks use them." in capsys.readouterr().out
    with devices.leased(3, "cuda", timeout=1) as all_of_them:
        assert all_of_them.environment["CUDA_VISIBLE_DEVICES"] == ",".join(GPUS)


def hold(pipe):
    with devices.leased(3, "cuda", timeout=5):
        pipe.send("held")
        pipe.recv()


def test_a_lease_ends_with_its_process(three_gpus):
    ours, theirs = multiprocessing.Pipe()
    holder = multiprocessing.get_context("fork").Process(target=hold, args=(theirs,))
    holder.start()
    assert ours.recv() == "held"
    with pytest.raises(ranks.RanksError):
        with devices.leased(1, "cuda", timeout=0.1):
            pass
    holder.kill()
    holder.join(10)
    with devices.leased(3, "cuda", timeout=2):
        pass


@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_hang_without_a_wait_says_where_nccl_may_wait(has_gpu):
    """On a GPU the host goes on, so that every rank of a deadlock seems to compute."""
    computing = [RankView(rank, "running", [], has_gpu=has_gpu) for rank in range(2)]
    assert ("COURSE_DEVICE=cpu shows the line that waits" in explain(computing)) is has_gpu
    assert "raise timeout=" in explain(computing)
    one_returned = [RankView(0, "returned", []), computing[1]]
    assert ("NCCL may wait" in explain(one_returned)) is has_gpu


def test_a_rank_of_torchrun_gets_a_gpu_and_is_never_left_on_the_cpu_unasked(monkeypatch):
    """One visible GPU for each task of Slurm, say: then somebody has to say that it is one task's alone."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    for name in ("COURSE_DEVICE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="LOCAL_WORLD_SIZE is not set"):
        torchrun.device()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert str(torchrun.device()) == "cuda:0"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert str(torchrun.device()) == "cpu"
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    monkeypatch.setenv("COURSE_DEVICE", "cpu")
    assert str(torchrun.device()) == "cpu"
