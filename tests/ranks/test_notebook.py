"""ranks.run in a Jupyter kernel: what cells define arrives in the ranks, and errors come back readable."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tests.ranks.kernels import Kernel, gone, kernel

START = "import torch\nimport torch.distributed as dist\nfrom course_lib import ranks"


@pytest.fixture(scope="module")
def notebook():
    with kernel(COURSE_DEVICE="cpu") as started:
        shown = started.run(START)
        assert shown.error == "" and shown.stderr == ""
        yield started


def value(notebook: Kernel, *cells: str) -> str:
    for cell in cells:
        shown = notebook.run(cell)
        assert shown.error == "" and shown.stderr == "", shown
    return shown.value


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["factor = 10", "def f(): return factor * dist.get_rank()", "ranks.run(f, 3)"], "[0, 10, 20]"),
        (["factor = 10", "factor = 7", "ranks.run(f, 2)"], "[0, 7]"),
        (["def f(): return 'edited'", "ranks.run(f, 1)"], "['edited']"),
        (["def helper(x): return x + 1", "def f(x): return helper(x)", "ranks.run(f, 2, 5)"], "[6, 6]"),
        (["def helper(x): return x + 2", "ranks.run(f, 2, 5)"], "[7, 7]"),
        (["def make(n):\n    def inner(): return n\n    return inner", "ranks.run(make(4), 2)"], "[4, 4]"),
        (["ranks.run(lambda a, b=2: (a, b), 2, 1, b=3)"], "[(1, 3), (1, 3)]"),
        (["class Box:\n    def __init__(self, n): self.n = n\n    def get(self): return self.n",
          "[type(b) is Box and b.n for b in ranks.run(Box, 2, 3)]"], "[3, 3]"),
        (["ranks.run(Box(8).get, 2)"], "[8, 8]"),
        (["def f():\n    boxes = [None, None]\n    dist.all_gather_object(boxes, Box(dist.get_rank()))\n"
          "    return [type(box) is Box and box.n for box in boxes]", "ranks.run(f, 2)"], "[[0, 1], [0, 1]]"),
        (["from functools import partial, wraps\n"
          "def twice(g):\n    @wraps(g)\n    def wrapped(): return 2 * g()\n"
          "    return wrapped\n@twice\ndef f(): return 21", "ranks.run(f, 2)"], "[42, 42]"),
        (["ranks.run(partial(pow, 2), 2, 5)"], "[32, 32]"),
        (["counter = 0\ndef f():\n    global counter\n    counter += 1\n    return counter",
          "ranks.run(f, 3), counter"], "([1, 1, 1], 0)"),
        (["class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
          "        self.layer = torch.nn.Linear(2, 1)\n    def forward(self, x): return self.layer(x)",
          "def f(net): return type(net).__name__, net(torch.ones(1, 2)).shape\n", "ranks.run(f, 2, Net())"],
         "[('Net', torch.Size([1, 1])), ('Net', torch.Size([1, 1]))]"),
    ],
)  # fmt: skip
def test_what_cells_define_arrives_in_the_ranks(notebook, cells, expected):
    assert value(notebook, *cells) == expected


def test_prints_are_shown_rank_by_rank(notebook):
    shown = notebook.run("def f():\n    print('a', dist.get_rank())\n    print('b')\nranks.run(f, 2)")
    assert shown.stdout == "[rank 0] a 0\n[rank 0] b\n[rank 1] a 1\n[rank 1] b\n"
    assert shown.stderr == ""


def test_an_error_shows_the_learners_lines_and_no_cell_number(notebook):
    cell = "def check(x):\n    assert x > 0, 'too small'\n\ndef f():\n    check(dist.get_rank())\n\n"
    cell += "ranks.run(f, 2)"
    shown = notebook.run(cell)
    assert shown.error.splitlines()[:3] == [
        "RankFailed: Rank 0 raised AssertionError: too small",
        "  in f, line 5: check(dist.get_rank())",
        "  in check, line 2: assert x > 0, 'too small'",
    ]
    assert "Cell In" not in shown.error and "ipykernel" not in shown.error and shown.stderr == ""


def test_the_learners_exception_comes_back_with_its_class(notebook):
    cell = (
        "class Mine(Exception): pass\ndef f(): raise Mine('x')\n"
        "try: ranks.run(f, 2)\nexcept ranks.RankFailed as error: caught = error.exception\n"
        "type(caught) is Mine and caught.args"
    )
    assert value(notebook, cell) == "('x',)"


def test_a_hang_names_the_lines_of_the_cell(notebook):
    cell = (
        "def f():\n    t = torch.zeros(3)\n    dist.recv(t, 1 - dist.get_rank())\n"
        "try: ranks.run(f, 2, timeout=1)\nexcept ranks.RanksHung as hung: print(hung)"
    )
    shown = notebook.run(cell)
    assert shown.stdout.count("line 3: dist.recv(t, 1 - dist.get_rank())") == 2
    assert "Ranks 0 and 1 wait to receive from each other" in shown.stdout


def test_a_warning_names_the_line_and_no_file(notebook):
    shown = notebook.run("import warnings\ndef f():\n    warnings.warn('careful')\nranks.run(f, 1)")
    assert shown.stdout == "[rank 0] UserWarning: careful (line 3: warnings.warn('careful'))\n"
    assert shown.stderr == ""


def test_what_can_not_be_sent_is_said(notebook):
    assert "can't be sent" in notebook.run("import threading\nranks.run(len, 2, threading.Lock())").error
    assert "hand over the function itself" in notebook.run("ranks.run(print(), 2)").error


def test_live_lines_come_before_the_end_and_progress_is_one_bar(notebook):
    cell = (
        "import time\ndef f():\n    for i in ranks.progress(range(5), description='steps'):\n"
        "        time.sleep(0.05)\n    ranks.log('half')\n    print('end')\nranks.run(f, 2)"
    )
    shown = notebook.run(cell)
    assert sorted(shown.stdout.splitlines()[:2]) == ["[rank 0] half", "[rank 1] half"]
    assert shown.stdout.endswith("[rank 0] end\n[rank 1] end\n")
    bars = [data for data in shown.displayed if "application/vnd.jupyter.widget-view+json" in data]
    assert len(bars) == 1 and shown.stderr == ""


def test_a_lot_of_text_is_shortened_but_kept(notebook):
    cell = "def f():\n    for _ in range(5000): print('y' * 99)\nranks.run(f, 2)"
    shown = notebook.run(cell)
    assert len(shown.stdout) < 60_000
    assert "characters are left out; ranks.output(1) has them all" in shown.stdout
    assert value(notebook, "len(ranks.output(1)), len(ranks.output())") == "(500000, 1000000)"


def test_the_environment_and_folder_of_now_reach_the_ranks(notebook, tmp_path):
    cell = f"import os\nos.environ['NEW'] = 'yes'\nos.chdir({str(tmp_path)!r})\n"
    cell += f"ranks.run(lambda: (os.environ['NEW'], os.getcwd()), 1) == [('yes', {str(tmp_path)!r})]"
    assert value(notebook, cell) == "True"


def test_a_module_of_the_learner_is_imported_afresh(notebook, tmp_path):
    (tmp_path / "mine.py").write_text("def answer(): return 1\n")
    assert value(notebook, f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport mine") == ""
    assert value(notebook, "ranks.run(mine.answer, 2)") == "[1, 1]"
    (tmp_path / "mine.py").write_text("def answer(): return 'edited'\n")
    assert value(notebook, "ranks.run(mine.answer, 2)") == "['edited', 'edited']"


def test_an_interrupt_ends_the_ranks_and_says_where_they_were(notebook):
    request = notebook.start("def f():\n    dist.recv(torch.zeros(1), 1 - dist.get_rank())\nranks.run(f, 2)")
    time.sleep(1.5)
    ended = [process for process in notebook.descendants()][1:]
    notebook.manager.interrupt_kernel()
    shown = notebook.collect(request)
    assert "Interrupted. The ranks were here" in shown.stdout and "line 2: dist.recv" in shown.stdout
    assert "KeyboardInterrupt" in shown.error
    assert gone(ended)
    assert value(notebook, "ranks.run(dist.get_rank, 2)") == "[0, 1]"


HANG = """
def f():
    import subprocess
    subprocess.Popen(["setsid", "sleep", "600"])
    print("x")
    dist.recv(torch.zeros(1), 1 - dist.get_rank())
ranks.run(f, 2)
"""


@pytest.mark.parametrize("how", [
    pytest.param("restart", marks=pytest.mark.long), pytest.param("shutdown", marks=pytest.mark.long),
    "kill"])
def test_nothing_outlives_the_kernel(how, tmp_path):
    with kernel(COURSE_DEVICE="cpu", TMPDIR=str(tmp_path)) as started:
        started.run(START)
        started.run("ranks.run(int, 1)")
        started.start(HANG)
        deadline = time.monotonic() + 20
        while len(started.descendants()) < 5 and time.monotonic() < deadline:
            time.sleep(0.1)
        left = started.descendants()
        assert len(left) == 5  # the server, two ranks, two grandchildren
        if how == "restart":
            started.manager.restart_kernel(now=True)
        elif how == "shutdown":
            started.manager.shutdown_kernel(now=True)
        else:
            os.kill(started.manager.provisioner.pid, signal.SIGKILL)
        assert gone(left)
        if how == "restart":
            started.client.wait_for_ready(timeout=60)
            started.run(START)
            assert value(started, "ranks.run(dist.get_rank, 2)") == "[0, 1]"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("course-ranks")] == []


@pytest.mark.long
def test_eight_notebooks_at_once():
    answers: dict[int, str] = {}

    def one(number: int) -> None:
        with kernel(COURSE_DEVICE="cpu") as started:
            started.run(START, 180)
            cell = f"def f(): t = torch.ones(3) * {number}; dist.all_reduce(t); return int(t.sum())\n"
            cell += "ranks.run(f, 4)"
            for _ in range(3):
                answers[number] = started.run(cell, 180).value

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert answers == {number: str([12 * number] * 4) for number in range(8)}
