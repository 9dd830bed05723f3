"""cluster/train.sbatch with stand-ins for Slurm's programs: it trains, and comes again while it gets on."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.hosts.machines import machines, wait_until
from tests.hosts.slurm import SCRIPT, Job
from tests.hosts.training import AGENT, RATE, SECONDS_TO_RUN, Training, long

NUMBER = 12345
SECONDS_TO_STOP = 60


def test_bash_understands_the_scripts():
    for script in (SCRIPT, AGENT):
        subprocess.run(["bash", "-n", script], check=True, timeout=20)


def test_the_scripts_options_are_slurms():
    options = re.findall(r"^#SBATCH (--[a-z-]+)(?:=(\S+))?", SCRIPT.read_text(), re.MULTILINE)
    assert dict(options)["--signal"] == "TERM@120" and ("--requeue", "") in options
    assert dict(options)["--ntasks-per-node"] == "1"


@long
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_whose_time_is_over_saves_and_comes_again(real_links, tmp_path, nodes):
    run = Training(tmp_path, steps=400 if nodes == 1 else 40)
    with machines(nodes, tmp_path, RATE) as there:
        job = Job(tmp_path, there, NUMBER, run.options(tmp_path / "checkpoints" / str(NUMBER)))
        with job.running() as process:
            wait_until(lambda: 20 in run.losses or process.poll() is not None, SECONDS_TO_RUN, "step 20")
            assert process.poll() is None, job.log
            job.time_is_nearly_over()
            assert job.wait(process, SECONDS_TO_STOP) != 0
        step = int(re.search(r"stopped after step (\d+) of", job.log)[1])
        assert job.requeued == [str(NUMBER)]

        assert job.run(SECONDS_TO_RUN) == 0
        assert f"goes on after step {step}, from" in job.log
        assert job.requeued == [str(NUMBER)]
    run.assert_undisturbed()


@long
def test_a_job_that_fails_before_it_gets_on_does_not_come_again(real_links, tmp_path):
    run = Training(tmp_path, steps=40)
    with machines(2, tmp_path, RATE) as there:
        job = Job(tmp_path, there, NUMBER, [*run.options(), "--batch", "1"])
        assert job.run(SECONDS_TO_RUN) == 1
    assert "course train: batch=1: expected at least 2" in job.log
    assert job.requeued == []
