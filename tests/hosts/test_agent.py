"""cluster/agent.sh runs what docs/clusters.md says, and asks for what it can't know."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

from tests.hosts.training import AGENT, REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "clusters.md").read_text()
SHOWS = """#!/bin/sh
echo "$TORCH_DISABLE_SHARE_RDZV_TCP_STORE,$GLOO_SOCKET_IFNAME,$NCCL_SOCKET_IFNAME"
printf '%s\\n' "$@"
"""


def agent(folder, *options, **variables):
    """The script with a torchrun that shows what it was given."""
    (torchrun := folder / "torchrun").write_text(SHOWS)
    torchrun.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    return subprocess.run([AGENT, *options], env=environment, capture_output=True, text=True, timeout=20)


def test_it_runs_the_command_of_the_document(tmp_path):
    asked = re.search(r"^(HEAD=\S+ HERE=10.0.0.2 .*) cluster/agent.sh (.*)$", DOCUMENT, re.MULTILINE)
    variables = dict(pair.split("=") for pair in asked[1].split())
    _, *shown = agent(tmp_path, *shlex.split(asked[2]), **variables).stdout.splitlines()
    documented = re.search(r"^torchrun (--nnodes.*?)\n```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert shown == shlex.split(documented[1].replace("\\\n", ""))


def test_the_head_is_the_host_and_options_are_passed_on(tmp_path):
    here = {"HEAD": "a", "HERE": "a", "MACHINES": "1:2", "INTERFACE": "eth7", "RENDEZVOUS": "join_timeout=9"}
    environment, *shown = agent(tmp_path, "--log-file", "a file", **here).stdout.splitlines()
    assert environment == "1,eth7,eth7"
    assert {"--rdzv-conf=is_host=true,join_timeout=9", "--nnodes=1:2", "--nproc-per-node=1"} <= set(shown)
    assert shown[-4:] == ["-m", "course_lib.train", "--log-file", "a file"]


def test_what_is_missing_is_named(tmp_path):
    there = {"HEAD": "a", "HERE": "a", "MACHINES": "2"}
    for name in there:
        done = agent(tmp_path, **{other: value for other, value in there.items() if other != name})
        assert done.returncode != 0 and done.stdout == "" and f"{name}: " in done.stderr
