"""The harness itself: it sees what a notebook shows, notices what is wrong, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import nbformat
import psutil
import pytest
from nbformat import v4

from course_lib.doctor import find_browser
from tools.clean_notebooks import KERNEL
from tools.lab_browser import end_with_children, jupyter_server, open_notebook

pytestmark = pytest.mark.browser

PLOT = """\
import matplotlib.pyplot as plt
figure, axes = plt.subplots()
axes.plot([1, 2, 4])
plt.close(figure)
display(figure)"""
RANKS = """\
from course_lib import ranks
import torch.distributed as dist

def greet():
    print("hello, I am one of", dist.get_world_size())

ranks.run(greet, 2)"""


@pytest.fixture(scope="module")
def my_course(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("notebooks")
    text = [v4.new_markdown_cell("A paragraph. " * 80) for _ in range(6)]
    write(folder / "good.ipynb", v4.new_code_cell(RANKS), *text, v4.new_code_cell(PLOT))
    write(folder / "bad.ipynb", v4.new_code_cell("1 / 0"), v4.new_code_cell("2"))
    return folder


def write(path, *cells):
    # Without the kernel's name JupyterLab asks which one to use.
    nbformat.write(v4.new_notebook(cells=list(cells), metadata={"kernelspec": KERNEL}), path)


# Long: a server and a browser of their own, for what lessons and explorers use in every run of the tests.
@pytest.mark.long
def test_a_run_is_seen_down_to_the_last_cell(browser, server, tmp_path):
    with open_notebook(browser, server, "good.ipynb", height=600) as opened:
        cells = opened.run_all()["cells"]
        seen = opened.outputs()
        assert "hello, I am one of 2" in seen.text
        assert seen.images == 1
        assert cells[-1]["outputs"][0]["output_type"] == "display_data"
        pictures = opened.pictures(tmp_path / "pictures")
        assert len(pictures) >= 2 and all(picture.stat().st_size > 1000 for picture in pictures)
        assert opened.errors == [] and opened.dialogs() == []


@pytest.mark.long
def test_a_cell_that_raises_and_errors_on_the_console_are_noticed(browser, server):
    with open_notebook(browser, server, "bad.ipynb") as opened:
        outputs = [output for cell in opened.run_all()["cells"] for output in cell["outputs"]]
        assert [output["ename"] for output in outputs] == ["ZeroDivisionError"]
        opened.page.evaluate("console.error('broken')")
        opened.page.wait_for_timeout(100)
        assert opened.errors == ["broken"]


def test_a_server_that_cannot_start_says_why(tmp_path):
    if find_browser() is None:
        pytest.skip("part of the browser tests")
    broken = [sys.executable, "-c", "import sys; sys.exit('no such port')"]
    with pytest.raises(RuntimeError, match="no such port"):
        with jupyter_server(tmp_path, broken):
            pass


def test_an_ended_process_takes_its_children_along():
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    start = f"import subprocess as s, sys; print(s.Popen([sys.executable, '-c', {ignore!r}]).pid, flush=True)"
    command = [sys.executable, "-c", f"{start}; input()"]
    process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True)
    child = psutil.Process(int(process.stdout.readline()))
    end_with_children(process)
    assert process.poll() is not None
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_a_server_ends_with_a_test_run_that_is_killed(tmp_path):
    run = (
        "from pathlib import Path; from tools.lab_browser import jupyter_server\n"
        f"with jupyter_server(Path({str(tmp_path)!r})): print('runs', flush=True); input()"
    )
    killed = subprocess.Popen([sys.executable, "-c", run], stdin=PIPE, stdout=PIPE, text=True)
    try:
        assert killed.stdout.readline() == "runs\n"
        servers = psutil.Process(killed.pid).children(recursive=True)
        assert servers
    finally:
        killed.kill()
        killed.wait()
    _, alive = psutil.wait_procs(servers, timeout=30)
    assert not alive
