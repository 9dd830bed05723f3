"""The same notebook under torchrun: the ranks that are there are used, and what can't run is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import nbformat
import pytest

from course_lib import ranks
from course_lib.notebook_run import first_line, names_defined
from course_lib.ranks.torchrun import say

CELLS = {
    "imports": "import torch\nimport torch.distributed as dist\nfrom course_lib import all_reduce, ranks",
    "define": "counter = 0\ndef f(x):\n    global counter\n    counter += 1\n"
    "    t = torch.ones(3) * dist.get_rank()\n    dist.all_reduce(t)\n    print('sum', t.tolist(), x)\n"
    "    return ranks.device().type, dist.get_rank()",
    "run-two": "print(ranks.run(f, 2, 'x'), counter)",
    "needs-four": "four = ranks.run(f, 4, 'x')",
    "rests-on-four": "print(len(four))",
    "hang": "ranks.run(lambda: dist.recv(torch.zeros(1), 1 - dist.get_rank()), 2, timeout=3)",
    "goes-on": "print('still here', ranks.run(dist.get_rank, 2))",
    "traffic": "def sent():\n    counts = []\n    for _ in range(2):\n        tensor = torch.ones(6)\n"
    "        with ranks.traffic() as traffic:\n            all_reduce.ring(tensor)\n"
    "        all_reduce.ring(tensor)  # not counted, and as before\n"
    "        counts.append(traffic.total_sent)\n    return counts\nprint(ranks.run(sent, 2))",
    "value": "# a value of several lines\ntorch.eye(2)",
}


def write(path: Path, cells: dict[str, str]) -> Path:
    notebook = nbformat.v4.new_notebook()
    for name, source in cells.items():
        cell = nbformat.v4.new_code_cell(source, id=name)
        if name == "hang":
            cell.metadata["tags"] = ["fails-on-purpose"]
        notebook.cells.append(cell)
    nbformat.write(notebook, path)
    return path


def torchrun(path: Path, *options: str, ranks: int = 2) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return subprocess.run(
        [*command, "-m", "course_lib", "run", str(path), *options],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COURSE_DEVICE": "cpu"},
    )


def test_a_notebook_runs_on_the_ranks_that_are_there(tmp_path):
    done = torchrun(write(tmp_path / "n.ipynb", CELLS))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[rank 0] sum [1.0, 1.0, 1.0] x",
        "[rank 1] sum [1.0, 1.0, 1.0] x",
        "[('cpu', 0), ('cpu', 1)] 0",
        "still here [0, 1]",
        "[[24, 24], [24, 24]]",
        "tensor([[1., 0.],",
        "        [0., 1.]])",
        "6 cells ran, 3 were skipped, 0 failed",
        "  skipped: four = ranks.run(f, 4, 'x')",
        "    this needs 4 ranks, and torchrun started 2",
        "  skipped: print(len(four))",
        "    it needs four, which a skipped cell defines",
        "  skipped: ranks.run(lambda: dist.recv(torch.zeros(1), 1 - dist.get_rank()), 2, ti…",
        "    it fails on purpose, which would end torchrun's ranks",
    ]


@pytest.mark.long
def test_a_failing_cell_fails_the_command_and_names_rank_and_line(tmp_path):
    cells = {"imports": CELLS["imports"], "bad": "def g():\n    assert dist.get_rank() == 0, 'not zero'\n"
             "    dist.barrier()\nranks.run(g, 2)"}  # fmt: skip
    done = torchrun(write(tmp_path / "n.ipynb", cells))
    assert done.returncode != 0
    assert "rank 1, in the cell 'def g():': AssertionError: not zero" in done.stderr
    assert "line 2: assert dist.get_rank() == 0" in done.stderr


def test_what_a_rank_printed_is_shown_where_its_function_raises(monkeypatch, capsys):
    started = {"RANK": "1", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in started.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("course_lib.ranks.torchrun.join", lambda timeout: None)

    def fails():
        print("one\ntwo")
        raise ArithmeticError("three")

    with pytest.raises(ArithmeticError, match="three"):
        ranks.run(fails, 1)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "[rank 1] one\n[rank 1] two\n")


@pytest.mark.long
def test_json_tells_of_each_cell(tmp_path):
    done = torchrun(write(tmp_path / "n.ipynb", {"one": "print(1)", "two": "2"}), "--json", ranks=1)
    assert json.loads(done.stdout) == [
        {"cell": "one", "code": "print(1)", "status": "ok", "reason": ""},
        {"cell": "two", "code": "2", "status": "ok", "reason": ""},
    ]


def test_without_torchrun_the_command_is_named(tmp_path):
    path = write(tmp_path / "n.ipynb", CELLS)
    done = subprocess.run(
        [sys.executable, "-m", "course_lib", "run", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert f"torchrun --standalone --nproc-per-node 2 -m course_lib run {path}" in done.stdout


def test_a_cell_is_named_by_its_first_line_of_code():
    assert first_line("\n# why\n  x = 1\ny = 2") == "x = 1"
    assert first_line("# only a comment") == first_line("") == "(no code)"
    assert len(first_line("x" * 300)) == 72


def test_names_that_a_cell_defines():
    source = "a, b = 1, 2\nfor c in a: pass\ndef d(): e = 1\nclass F: h = 1\nwith open('x') as g: pass\n"
    source += "[i for i in a]\nlambda j: (k := j)\nimport l.m, n as o\nfrom p import q, r as s\nt.u = 1"
    assert names_defined(source) == {"a", "b", "c", "d", "F", "g", "l", "o", "q", "s"}
    assert names_defined("%magic") == set()


def test_a_line_of_several_ranks_is_written_in_one_piece(monkeypatch):
    """An unbuffered stream passes on each write by itself, and another rank's may come between two."""
    pieces = []
    monkeypatch.setattr(sys, "stdout", mock.Mock(write=pieces.append))
    started = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    monkeypatch.setattr(os, "environ", started)
    ranks.log("half of it")
    errors = mock.Mock(write=pieces.append)
    say("two\nlines", errors)
    assert pieces == ["[rank 1] half of it\n", "two\nlines\n"]
    assert errors.flush.called
