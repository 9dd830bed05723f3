"""Checkpoint files: whole or not there, never believed without their checksum, the newest two."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from unittest import mock

import pytest
import torch

from course_lib.train import checkpoint


def state(step=1, **settings):
    weights = {"weight": torch.arange(6.0).view(2, 3) + step}
    optimizer = {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"betas": (0.9, 0.95)}]}
    random = [[torch.get_rng_state()]]
    return checkpoint.State(step, {"hidden": 16, **settings}, weights, optimizer, {}, random)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_is_read_bit_by_bit(tmp_path):
    written = state(step=3)
    path = checkpoint.write(tmp_path / "new" / "folder", written)
    found = checkpoint.newest(path.parent)
    read = checkpoint.state_of(found.content)
    assert (found.path, found.remarks, path.name) == (path, [], "step-00000003.checkpoint")
    assert (read.step, read.settings, read.optimizer["param_groups"]) == (
        3, {"hidden": 16}, written.optimizer["param_groups"])  # fmt: skip
    assert torch.equal(read.weights["weight"], written.weights["weight"])
    assert torch.equal(read.random[0][0], written.random[0][0])


def test_the_newest_two_are_kept_and_nothing_else_is_left(tmp_path):
    for step in (8, 9, 10, 11):
        checkpoint.write(tmp_path, state(step))
    assert names(tmp_path) == ["step-00000010.checkpoint", "step-00000011.checkpoint"]


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    for name in ("notes.txt", "step-1.checkpoint", "step-00000009.checkpoint.refused"):
        (tmp_path / name).write_text("mine")
    for step in (1, 2, 3):
        checkpoint.write(tmp_path, state(step))
    assert {"notes.txt", "step-1.checkpoint", "step-00000009.checkpoint.refused"} <= set(names(tmp_path))


def test_a_folder_is_one_runs_at_a_time_and_is_found_wrong_before_the_first_step(tmp_path):
    folder = tmp_path / "new" / "folder"
    with checkpoint.held(folder, 1):
        with pytest.raises(checkpoint.Unusable, match="Another run writes its checkpoints to .*folder"):
            with checkpoint.held(folder, 0.01):
                raise AssertionError("two have it")
        checkpoint.write(folder, state())
    with checkpoint.held(folder, 0.01):
        pass
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for wrong in ("file", "link", "file/folder"):
        with pytest.raises(OSError), checkpoint.held(tmp_path / wrong, 0.01):
            pass


def test_a_disk_without_locks_is_written_to(tmp_path):
    with mock.patch("filelock.FileLock.acquire", side_effect=NotImplementedError):
        with checkpoint.held(tmp_path, 1):
            checkpoint.write(tmp_path, state())


def test_without_a_folder_or_a_checkpoint_there_is_none(tmp_path):
    for folder in (tmp_path, tmp_path / "not there"):
        assert checkpoint.newest(folder) == checkpoint.Found(None, None, [])
        assert checkpoint.newest_step(folder) is None


def torn(content):
    return content[: len(content) // 2]


def one_bit_flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def foreign(content):
    return pickle.dumps({"weights": [1, 2, 3]})


def of_another_form(content):
    return content.replace(b"form 1", b"form 9", 1)


def harmful(content):
    """A right checksum around a pickle that would run code."""
    payload = pickle.dumps(os.system, protocol=2)
    return checkpoint._MAGIC + hashlib.sha256(payload).digest() + payload


def odd(content):
    """A right checksum around other things."""
    payload = io.BytesIO()
    torch.save({**vars(state()), "settings": [1, 2]}, payload)
    return checkpoint._MAGIC + hashlib.sha256(payload.getvalue()).digest() + payload.getvalue()


BAD = {
    torn: "it is damaged or only a part, since its checksum does not fit",
    one_bit_flipped: "it is damaged or only a part, since its checksum does not fit",
    foreign: "it is not a checkpoint of course train",
    of_another_form: "it was written by another version of the course",
    harmful: "it can't be read (UnpicklingError)",
    odd: "it can't be read (it has no settings)",
    lambda content: b"": "it is empty",
}


@pytest.mark.parametrize("spoil", BAD)
def test_a_bad_file_is_put_aside_and_the_one_before_it_is_used(tmp_path, spoil):
    checkpoint.write(tmp_path, state(5))
    path = checkpoint.write(tmp_path, state(6))
    path.write_bytes(spoil(path.read_bytes()))
    found = checkpoint.newest(tmp_path)
    assert found.path.name == "step-00000005.checkpoint"
    assert found.remarks == [f"step-00000006.checkpoint is not used: {BAD[spoil]}."]
    assert names(tmp_path) == ["step-00000005.checkpoint", "step-00000006.checkpoint.refused"]
    assert checkpoint.newest(tmp_path).remarks == []


def test_where_all_are_bad_nothing_is_begun_anew(tmp_path):
    for step in (5, 6):
        path = checkpoint.write(tmp_path, state(step))
        path.write_bytes(torn(path.read_bytes()))
    with pytest.raises(checkpoint.Unusable) as refused:
        checkpoint.newest(tmp_path)
    assert "step-00000006.checkpoint is not used: it is damaged" in str(refused.value)
    assert "step-00000005.checkpoint is not used: it is damaged" in str(refused.value)
    assert "Move them away to begin with step 1." in str(refused.value)
    assert len(names(tmp_path)) == 2


def test_another_runs_checkpoint_is_refused_with_all_that_differs(tmp_path):
    there = {"hidden": 16, "seed": 0, "steps": 100}
    with pytest.raises(checkpoint.Unusable) as refused:
        checkpoint.require_same_run(tmp_path, there, {"hidden": 32, "seed": 0, "steps": 10, "text": "b"})
    said = "hidden=16 there and 32 here, steps=100 there and 10 here, text=None there and 'b' here"
    assert said in str(refused.value) and "seed" not in str(refused.value)
    checkpoint.require_same_run(tmp_path, there, dict(there))


@pytest.mark.parametrize("stage", ["os.fsync", "os.replace"])
def test_killed_on_the_way_it_leaves_the_one_before(tmp_path, stage):
    class Killed(BaseException):
        pass

    checkpoint.write(tmp_path, state(1))
    with mock.patch(f"{checkpoint.__name__}.{stage}", side_effect=Killed), pytest.raises(Killed):
        with mock.patch(f"{checkpoint.__name__}.os.unlink"):  # who is killed cleans nothing up
            checkpoint.write(tmp_path, state(2))
    assert checkpoint.newest(tmp_path).path.name == "step-00000001.checkpoint"
    assert len(names(tmp_path)) == 2
    checkpoint.write(tmp_path, state(3))
    assert names(tmp_path) == ["step-00000001.checkpoint", "step-00000003.checkpoint"]


def test_a_full_disk_leaves_the_one_before_and_no_part(tmp_path):
    checkpoint.write(tmp_path, state(1))
    full = OSError(28, "No space left on device")
    no_space = pytest.raises(OSError, match="No space")
    with mock.patch(f"{checkpoint.__name__}.os.fsync", side_effect=full), no_space:
        checkpoint.write(tmp_path, state(2))
    assert names(tmp_path) == ["step-00000001.checkpoint"]
