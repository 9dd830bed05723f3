"""Exactly the pip part of environment.yml, in a fresh virtual environment, gives a working course."""

import json
import urllib.request

import pytest

from tests.environment.test_agreement import differences_from_lock
from tools.lab_browser import jupyter_server

# Long: `make test` itself installs what is locked, and test_agreement.py compares environment.yml with it.
pytestmark = [pytest.mark.install, pytest.mark.long, pytest.mark.timeout(900)]

TWO_RANKS = """
from course_lib import ranks
import torch, torch.distributed as dist

def total():
    numbers = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(numbers)
    return numbers.item()

if __name__ == "__main__":
    print(ranks.run(total, 2))
"""


def test_doctor_finds_nothing_wrong(fresh_course):
    done = fresh_course.run("course", "doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"] is True


def test_two_ranks_run(fresh_course):
    script = fresh_course.checkout / "two_ranks.py"
    script.write_text(TWO_RANKS)
    done = fresh_course.run("python", str(script))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[3, 3]\n", "")


def test_it_holds_what_is_locked_and_nothing_of_the_classroom(fresh_course):
    listed = fresh_course.run("pip", "list", "--format=json", "--disable-pip-version-check").stdout
    versions = {package["name"]: package["version"] for package in json.loads(listed)}
    assert differences_from_lock(versions) == {}
    assert "torch" in versions and "nbgrader" not in versions
    assert fresh_course.run("pip", "check").returncode == 0


def test_course_lab_writes_the_working_copy_and_serves_it(fresh_course):
    command = [str(fresh_course.environment / "bin" / "course"), "lab"]
    with jupyter_server(fresh_course.checkout, command) as server:
        assert server.root == fresh_course.checkout / "my_course"
        assert server.url.startswith("http://127.0.0.1:") and server.token
        lesson = f"{server.url}api/contents/00_start_here.ipynb?token={server.token}"
        assert json.load(urllib.request.urlopen(lesson, timeout=10))["type"] == "notebook"
