"""``course train`` as a command: what it prints, how it ends, and under torchrun."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import torch.distributed as dist

from course_lib import ranks
from course_lib.ranks import RankFailed, RanksHung, devices
from course_lib.train import command, failures, lines, starting, stopping
from course_lib.train.errors import TrainingError
from course_lib.train.records import Record
from tests.train.test_mine import notebooks

SMALL = "--layers 1 --hidden 16 --heads 2 --sequence 16 --batch 6 --no-utilization".split()
ENDLESS = ["--steps", "1000000", "--checkpoint-every", "1000000", "--print-every", "1000000"]
TRAIN = [sys.executable, "-m", "course_lib.train", *SMALL]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ENVIRONMENT = {**os.environ, "COURSE_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}


def start(*arguments, program=TRAIN):
    return subprocess.Popen([*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=ENVIRONMENT)  # fmt: skip


def finished(*arguments, program=TRAIN):
    with start(*arguments, program=program) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def until(process, words):
    """Read lines until one has the words."""
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"it ended without {words!r}: {process.stderr.read()}")


def options(*arguments):
    parser = command.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(list(arguments))


# --- ended by signals ---


@pytest.mark.parametrize(
    ("number", "count"), [(signal.SIGTERM, 1), pytest.param(signal.SIGINT, 2, marks=pytest.mark.long)])
def test_a_signal_ends_it_after_a_step_with_a_checkpoint_and_status_0(tmp_path, number, count):
    with start(*ENDLESS, "--ranks", str(count), "--checkpoint", str(tmp_path / "run")) as process:
        until(process, "step       1/1000000")
        process.send_signal(number)
        step = int(until(process, "stopped after step").split()[5])
        until(process, f"step-{step:08}.checkpoint")
        err = process.stderr.read()
    assert (process.returncode, err) == (0, "")
    assert [path.name for path in (tmp_path / "run").glob("step*")] == [f"step-{step:08}.checkpoint"]


def test_two_signals_at_once_are_one_request_and_a_later_one_ends_the_process(monkeypatch):
    asked, now = [], [100.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stopping.on_signals(lambda: asked.append(now[0])):
        signal.raise_signal(signal.SIGINT)
        now[0] += 0.5  # torchrun passes on what the rank has got itself
        signal.raise_signal(signal.SIGINT)
        assert asked == [100.0]
        now[0] += 10
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.code == 128 + signal.SIGTERM
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_handler_that_is_none_of_pythons_is_left_out_of_what_is_restored(monkeypatch):
    """What C code has installed Python can't give back: signal.signal says None then, and refuses it."""
    restore = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    install = signal.signal

    def install_and_tell_nothing(number, handler):
        install(number, handler)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(stopping.signal, "signal", install_and_tell_nothing)
            with stopping.on_signals(lambda: None):
                pass
    finally:
        for number, handler in restore.items():
            signal.signal(number, handler)


# --- what it says when it fails ---


def test_what_is_no_number_is_refused_in_words(capsys):
    with pytest.raises(SystemExit):
        options("--max-norm", "abc")
    assert "expected a number, or none, and not 'abc'" in capsys.readouterr().err


def test_ranks_that_never_meet_say_where_they_were_to(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "head")
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("WORLD_SIZE", "4")
    lost = RuntimeError("Timed out waiting 2000ms for connect")
    monkeypatch.setattr(starting.torchrun, "join", mock.Mock(side_effect=lost))
    with pytest.raises(ConnectionError, match="not all 4 ranks have met at head:29500 within 2 s. Has each"):
        starting._join(2)


def test_wrong_options_end_with_status_2_and_one_sentence(capsys):
    assert command.main(options("--steps", "0")) == 2
    assert command.main(options("--ranks", "2", "--batch", "1")) == 2
    assert capsys.readouterr().err.splitlines() == [
        "course train: steps=0: expected a positive whole number",
        "course train: batch=1: expected at least 2, a sequence for each of 2 × 1 micro-batches",
    ]


def test_tasks_of_slurm_that_know_nothing_of_each_other_do_not_each_begin_a_run(monkeypatch, capsys):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert command.main(options()) == 2
    assert "srun has started 4 tasks, and each would be a run of its own" in capsys.readouterr().err


def fails_with(monkeypatch, error):
    def outcome(*arguments):
        raise error

    monkeypatch.setattr(starting, "outcome", outcome)


def test_what_all_ranks_know_is_said_in_one_sentence(monkeypatch, capsys):
    fails_with(monkeypatch, RankFailed("a long report", [], TrainingError("It can't be.")))
    assert command.main(options()) == 1
    assert capsys.readouterr().err == "course train: It can't be.\n"


def test_a_failure_says_from_which_step_the_run_goes_on(monkeypatch, capsys, tmp_path):
    fails_with(monkeypatch, RanksHung("No rank made progress: raise timeout=, or wait.", []))
    (tmp_path / "step-00000050.checkpoint").touch()
    assert command.main(options("--checkpoint", str(tmp_path))) == 1
    assert capsys.readouterr().err == (
        "course train: No rank made progress: raise --timeout, or wait.\n"
        f"Start the same command again, and the run goes on after step 50 ({tmp_path}).\n"
    )
    assert command.main(options()) == 1
    assert "--checkpoint FOLDER keeps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        ("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:5", True),
        ("[../gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 2000ms for recv", True),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_a_lost_rank_is_told_from_other_errors(monkeypatch, text, is_lost):
    monkeypatch.setenv("RANK", "1")
    error = RuntimeError(text)
    error.add_note("in step 7")
    said = failures.explained(error, 30)
    assert said.startswith("rank 1 on ") and ", in step 7: " in said and "gloo" not in said
    assert ("another rank is gone, or has not answered for 30 s" in said) is is_lost


# --- results ---


def test_run_is_a_function_with_a_record_for_each_step(tmp_path):
    from course_lib.train import Settings, run

    log = tmp_path / "logs" / "run.jsonl"
    settings = Settings(steps=3, ranks=1, layers=1, hidden=16, heads=2, sequence=16, batch=4, quiet=True,
                        utilization=False, log=log)  # fmt: skip
    records = run(settings)
    assert [record.step for record in records] == [1, 2, 3]
    assert all(record.tokens == 64 and record.tokens_per_second > 0 for record in records)
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert logged == [vars(record) for record in records]


# --- a log that is there ---


def test_what_json_has_no_number_for_is_null():
    line = Record(1, 5.0, 1e-3, math.inf, 64, 0.1, None, True).as_json()
    assert json.loads(line, parse_constant=pytest.fail)["gradient_norm"] is None


RECORDS = [Record(step, 5.0, 1e-3, 1.0, 64, 0.1, None, False) for step in (1, 2, 3)]
LINES = [json.dumps(vars(record)).encode() + b"\n" for record in RECORDS]
FOREIGN = [b"my notes\n", b"my notes", b"\xff\xfe\x00\n", b'{"step": 1}\n', b"[1]\n"]


def test_a_log_that_is_there_loses_what_is_done_again_and_is_kept_as_it_was(tmp_path):
    log = tmp_path / "new" / "run.jsonl"
    assert lines.begin_log(None, 0) == lines.begin_log(log, 0) == []
    for content, resumed_from, kept in [
        (b"".join(LINES), 3, 3), (b"".join(LINES), 2, 2), (b"".join(LINES), 0, 0),
        (b"".join(LINES) + LINES[0][:7], 3, 3), (LINES[0] + LINES[1][:30], 1, 1),
    ]:  # fmt: skip
        log.write_bytes(content)
        said = lines.begin_log(log, resumed_from)
        assert log.read_bytes() == b"".join(LINES[:kept])
        if content == b"".join(LINES[:kept]):
            assert said == []
        else:
            assert said == [f"{log} keeps its lines up to step {resumed_from}; as it was, it is "
                            "run.jsonl.before"]  # fmt: skip
            assert (tmp_path / "new" / "run.jsonl.before").read_bytes() == content


@pytest.mark.parametrize("content", [*FOREIGN, LINES[0][:20] + b"\n" + LINES[1]])
def test_a_file_that_is_no_log_is_left_alone(tmp_path, content):
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(ValueError, match="log='.*mine' is there, and not all of its lines"):
        lines.begin_log(tmp_path / "mine", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_bytes() == content


def test_what_is_no_file_is_only_written_to():
    before = os.stat(os.devnull)
    assert lines.begin_log(Path(os.devnull), 0) == []
    assert os.stat(os.devnull).st_ino == before.st_ino


def test_a_log_that_can_not_be_ends_the_run_before_it_begins(tmp_path, capsys):
    assert command.main(options(*SMALL, "--ranks", "1", "--json", "--log", str(tmp_path))) == 1
    assert capsys.readouterr().err == f"course train: {tmp_path}: Is a directory\n"


def test_no_speed_is_shown_where_ranks_share_cores(monkeypatch, capsys):
    from course_lib.train import Settings

    settings = Settings(steps=2, ranks=2, layers=1, hidden=16, heads=2, sequence=16, batch=4)
    outcome = ranks.run(_on_one_core, 2, settings, device="cpu")[0]
    said = capsys.readouterr().out
    assert outcome.tokens_per_second is None and outcome.peak_flops is None
    assert "no tokens/s and no U: 2 ranks share 1 cores of" in said
    assert " tokens/s  " not in said and "median" not in said


def test_machines_are_told_apart_by_their_names():
    """Also where nobody has set LOCAL_WORLD_SIZE."""
    of_ranks = ranks.run(_machines, 3, device="cpu")[0]
    assert [(each.host, each.ranks_here) for each in of_ranks] == [("a", 2), ("b", 1), ("a", 2)]


def _machines():
    from course_lib.train import ranks_agree

    ranks_agree.socket = mock.Mock(gethostname=lambda: "aba"[dist.get_rank()])
    return ranks_agree.machines()


def _on_one_core(settings):
    from course_lib.train import rank, ranks_agree

    ranks_agree.usable_cores = lambda: 1
    return rank.train(settings)


# --- torchrun ---


def test_with_json_what_the_learners_code_prints_is_not_in_the_way(tmp_path, capsys):
    """A ring that prints in each call, and torch's DDP with everything in one bucket."""
    ring = "def ring(tensor):\n    print('my ring')\n    dist.all_reduce(tensor)"
    notebooks(tmp_path, ex03={"ring": ring})
    asked = ["--mine", str(tmp_path), "--data-parallel", "ddp", "--bucket-mb", "inf"]
    assert command.main(options(*SMALL, "--steps", "1", "--json", *asked)) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["step"] == 1 and "my ring\n" in captured.err


@pytest.mark.long
def test_under_torchrun_it_is_the_same_run_and_resumes(tmp_path):
    program = [*TORCHRUN, "-m", "course_lib.train", *SMALL]
    of = ["--steps", "6", "--dtype", "float64", "--checkpoint"]
    status, out, err = finished(*of, str(tmp_path / "a"), "--stop-after", "4", program=program)
    assert status == 0 and "[rank 0] stopped after step 4 of 6" in out, err
    assert "training:" not in err  # no bar where nobody looks on
    status, out, err = finished(*of, str(tmp_path / "a"), "--json", program=program)
    assert status == 0 and json.loads(out)["resumed_from"] == 4, err
    status, alone, err = finished(*of, str(tmp_path / "b"), "--json", "--ranks", "1")
    assert status == 0 and json.loads(alone)["loss"] == pytest.approx(json.loads(out)["loss"], abs=1e-9), err
    status, out, err = finished(*of, str(tmp_path / "a"), "--seed", "1", program=program)
    assert status == 1 and err.count("is of another run: seed=0 there and 1 here") == 1


@pytest.mark.long
def test_torchrun_passes_a_signal_on_and_the_ranks_save(tmp_path):
    program = [*TORCHRUN, "-m", "course_lib.train", *SMALL]
    with start(*ENDLESS, "--checkpoint", str(tmp_path), program=program) as process:
        until(process, "step       1/1000000")
        process.send_signal(signal.SIGTERM)
        until(process, "stopped after step")
        until(process, "checkpoint: ")
        process.communicate(timeout=60)
    assert len(list(tmp_path.glob("step-*.checkpoint"))) == 1


@pytest.mark.long
def test_ranks_whose_agent_is_killed_end(tmp_path):
    program = [*TORCHRUN, "-m", "course_lib.train", *SMALL]
    with start(*ENDLESS, "--checkpoint", str(tmp_path), program=program) as process:
        until(process, "step       1/1000000")
        process.kill()
        _, err = process.communicate(timeout=60)  # the ranks have its pipes
    assert "the torchrun agent of this rank is gone, so the rank ends" in err
    assert "Traceback" not in err


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_ends_the_others_in_time_with_one_message(tmp_path, how):
    """Killed, its connections break; stopped, it only does not answer."""
    rendezvous = {
        **ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": devices.loopback(),
    }  # fmt: skip
    command = [*TRAIN, *ENDLESS, "--checkpoint", str(tmp_path), "--checkpoint-every", "5", "--timeout", "5"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**rendezvous, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(2)]  # fmt: skip
    try:
        until(both[0], "step       1/1000000")
        while not list(tmp_path.glob("step-*.checkpoint")):
            time.sleep(0.05)
        both[1].send_signal(how)
        lost = time.monotonic()
        _, err = both[0].communicate(timeout=60)
        assert time.monotonic() - lost < 30
    finally:
        both[1].kill()
        both[1].communicate()
    assert both[0].returncode == 1
    assert "course train: rank 0 on " in err and "in step " in err
    assert "another rank is gone, or has not answered for 5 s" in err
    assert "Start the same command again, and the run goes on after step " in err
    assert "Traceback" not in err


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
