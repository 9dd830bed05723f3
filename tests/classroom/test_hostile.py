"""Submissions that attack: each ends with its line, nothing of it remains, and the next is marked right."""

import contextlib
import os
import re
import time
from pathlib import Path

import pytest

from course_lib.classroom.jail import JailLimits
from course_lib.classroom.player import Player
from course_lib.working_copy import COURSE_ROOT
from tests.classroom.learners import NEIGHBORS, part_of

LONG = pytest.mark.long


def some(names, *quick):
    """These for every test run, the others for the long one."""
    return [name if name in quick else pytest.param(name, marks=LONG) for name in names]


def neighbors(*lines):
    """An answer that does something else first."""
    body = "\n".join(f"    {line}" for line in lines)
    return f"import os, sys, time\ndef neighbors(rank, ranks):\n{body}\n    return 'no answer'"


ATTACKS = {
    "fork bomb": (neighbors("while True:", "    os.fork()"), {"crash", "error", "hang"}),
    "endless output": (neighbors("while True:", "    print('x' * 10_000)"), {"crash"}),
    "ends Python": (neighbors("os._exit(0)"), {"crash"}),
    "leaves": (neighbors("sys.exit(0)"), {"error"}),
    "kills all": (neighbors("os.kill(-1, 9)"), {"crash", "hang"}),
    "kills the first process": (neighbors("os.kill(1, 9)", "os.kill(os.getppid(), 9)"),
                                {"crash", "error", "wrong"}),
    "segmentation fault": (neighbors("import ctypes", "ctypes.string_at(0)"), {"crash"}),
    "fills the memory": (neighbors("held = []", "while True:", "    held.append(bytearray(1 << 26))"),
                         {"error", "crash"}),
    "fills the disk": (neighbors("with open('/tmp/full', 'wb') as file:", "    while True:",
                                 "        file.write(bytes(1 << 20))"), {"error", "crash"}),
    "no end": (neighbors("while True:", "    time.sleep(1)"), {"hang"}),
    "prints a pass line": (neighbors("print('6 of 6 world sizes are right.\\n1.0')"), {"wrong"}),
}  # fmt: skip


@pytest.mark.parametrize("name", some(ATTACKS, "ends Python"))
def test_an_attack_gets_its_line_and_no_points(learner, player, name):
    text, expected = ATTACKS[name]
    part = learner("00").answer(neighbors=text).part(player, "neighbors")
    assert part.status in expected
    assert part.points == 0
    assert learner("00").part(player, "neighbors").status == "pass"  # of the next one, in the same jail


# Each replaces what a marker in the learner's process would rest on.
PATCHES = {
    "the check": "from course_lib.checks import judging, checking, values\n"
    "judging.share = lambda *arguments: 1.0\nvalues.agree = lambda *arguments: True\n"
    "checking.check = lambda *arguments: 1.0",
    "torch": "import torch\ntorch.equal = torch.allclose = lambda *arguments, **named: True\n"
    "torch.Tensor.__eq__ = lambda *arguments: True",
    "what plays": "from course_lib.classroom import jailed\nfrom course_lib.checks import playing\n"
    "playing.play_calls = lambda function, calls: [None for call in calls]",
    "what writes": "from course_lib.classroom import wire\n"
    "wire.played_to_text = lambda played: '[[[[' * 1000",
    "json": "import json\njson.dumps = lambda *arguments, **named: '{\"spoiled\": 1}'",
    "pickle": "import pickle, os\n"
    "class Harm:\n    def __reduce__(self):\n        return os.system, ('touch /tmp/harmed',)\n"
    "from course_lib.classroom import wire\nwire.played_to_text = lambda played: Harm()",
    "nbval": "import sys\nsys.modules['nbval'] = sys.modules['nbval.plugin'] = None",
}  # fmt: skip


@pytest.mark.parametrize("name", some(PATCHES, "what plays"))
def test_what_is_patched_in_the_learners_process_earns_nothing(learner, player, name):
    text = f"{PATCHES[name]}\ndef neighbors(rank, ranks):\n    return 'no answer'"
    part = learner("00").answer(neighbors=text).part(player, "neighbors")
    assert part.points == 0
    assert part.status in ("wrong", "crash", "error")
    assert not Path("/tmp/harmed").exists()


LIARS = {
    "an object that is equal to all": "class All(tuple):\n    __eq__ = lambda *arguments: True\n"
    "    __hash__ = tuple.__hash__\ndef neighbors(rank, ranks):\n    return All((9, 9))",
    "a number that is equal to all": "class All(int):\n    __eq__ = lambda *arguments: True\n"
    "def neighbors(rank, ranks):\n    return All(9), All(9)",
    "harm when it is unpickled": "import os\nclass Harm:\n    def __reduce__(self):\n"
    "        return os.system, ('touch /tmp/harmed',)\ndef neighbors(rank, ranks):\n    return Harm()",
    "harm in what is raised": "import os\nclass Harm(Exception):\n    def __reduce__(self):\n"
    "        return os.system, ('touch /tmp/harmed',)\ndef neighbors(rank, ranks):\n    raise Harm()",
    "a list without end": "def neighbors(rank, ranks):\n    own = []\n    own.append(own)\n    return own",
    "a long text": "def neighbors(rank, ranks):\n    return 'x' * 300_000_000",
    "a tensor of nothing like it": "import torch\ndef neighbors(rank, ranks):\n"
    "    return torch.zeros(10**6, dtype=torch.complex64)",
}  # fmt: skip


@pytest.mark.parametrize("name", some(LIARS, "harm when it is unpickled"))
def test_objects_that_lie_or_harm_earn_nothing(learner, player, name):
    mark = learner("00").answer(neighbors=LIARS[name]).marked(player, "neighbors")
    assert part_of(mark, "neighbors").points == 0
    assert not Path("/tmp/harmed").exists()


LOOKING = """
import glob, os, socket, time
from pathlib import Path

def attempt(act):
    try:
        return act()
    except BaseException as error:
        return f"{type(error).__name__}"

def neighbors(rank, ranks):
    folder = Path("COURSE")
    found = {
        "solutions": attempt(lambda: sorted(os.listdir(folder / "exercises"))),
        "tests": attempt(lambda: sorted(os.listdir(folder / "tests"))),
        "root": attempt(lambda: sorted(os.listdir("/root"))) if "/root" not in str(folder) else "",
        "library": attempt(lambda: (folder / "course_lib" / "cli.py").write_text("harm")),
        "python": attempt(lambda: Path(os.__file__).write_text("harm")),
        "new file": attempt(lambda: Path("/harm").write_text("harm")),
        "device": attempt(lambda: Path("/dev/harm").write_text("harm")),
        "network": attempt(lambda: socket.create_connection(("192.0.2.1", 80), timeout=2)),
        "first": attempt(lambda: os.open("/proc/1/fd/0", os.O_RDWR)),
        "memories": [path for path in set(glob.glob("/proc/[0-9]*/mem")) - {f"/proc/{os.getpid()}/mem"}
                     if not isinstance(attempt(lambda: open(path)), str)],
        "processes": len(glob.glob("/proc/[0-9]*")),
        "users": attempt(lambda: os.setuid(0)),
        "environment": sorted(name for name in os.environ if "SECRET" in name),
    }
    time.sleep(0.5)  # until the other ranks have looked
    raise RuntimeError("".join(f"\\n<{name}: {value}>" for name, value in found.items()))
"""


def test_nothing_but_python_the_library_and_a_scratch_folder_is_there(learner, player, monkeypatch):
    monkeypatch.setenv("A_SECRET", "of the marker")
    looking = LOOKING.replace("COURSE", str(COURSE_ROOT))
    mark = learner("00").answer(neighbors=looking).marked(player, "neighbors")
    message = part_of(mark, "neighbors").cases[1].message  # two ranks
    found = dict(re.findall("<(.*): (.*)>", message))
    assert found["solutions"] == found["tests"] == "FileNotFoundError"
    assert found["network"] == "OSError"
    assert found["environment"] == found["memories"] == "[]"
    assert int(found["processes"]) >= 4  # the first one, the one that starts ranks, and two ranks
    for name in ("library", "python", "new file", "device", "first", "users"):
        assert found[name] in ("OSError", "PermissionError"), name


def test_a_rank_finds_no_other_ranks_arguments(learner, player):
    """Who could read them would know the sum without a message."""
    text = """
import glob, os, pickle
def pass_right(tensor):
    found = [path for path in glob.glob("/tmp/**/calls.*", recursive=True)]
    print("found", found)
    return tensor
"""
    message = learner("00").answer(pass_right=text).part(player, "pass_right").message
    assert "found []" in message


LEFT = """
import glob, os, time

def steal():
    if os.fork():
        return
    os.setsid()
    while True:
        if glob.glob("/tmp/**/calls.*", recursive=True):
            open("/tmp/stolen", "w").close()

def neighbors(rank, ranks):
    if ranks == 1:
        steal()
        os.kill(os.getppid(), 9)  # of whoever would end what is left
        time.sleep(60)
    return (rank - 1) % ranks, (rank + 1) % ranks

def pass_right(tensor):
    raise RuntimeError(f"stolen: {os.path.exists('/tmp/stolen')}")
"""


@LONG
def test_what_a_run_leaves_behind_does_not_see_the_next_one(learner, player):
    mark = learner("00").answer(neighbors=LEFT, pass_right="").marked(player, "neighbors", "pass_right")
    assert part_of(mark, "neighbors").cases[0].status == "crash"
    assert part_of(mark, "neighbors").cases[1].status == "pass"
    assert "stolen: False" in part_of(mark, "pass_right").message


@LONG
def test_modules_that_a_learner_leaves_are_imported_by_no_later_process(learner, player):
    text = """
import os, time
with open("/home/learner/json.py", "w") as file:
    file.write("open('/tmp/imported', 'w').close()")
def neighbors(rank, ranks):
    if ranks == 1:
        os.kill(os.getppid(), 9)  # a new one is started, which imports json
        time.sleep(60)
    raise RuntimeError(f"imported: {os.path.exists('/tmp/imported')}")
"""
    part = learner("00").answer(neighbors=text).part(player, "neighbors")
    assert "imported: False" in part.cases[1].message


@LONG
def test_memory_that_belongs_to_no_process_can_not_be_had(learner, player):
    text = """
import ctypes, os
def neighbors(rank, ranks):
    assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) == -1
    os.memfd_create("held")
"""
    part = learner("00").answer(neighbors=text).part(player, "neighbors")
    assert "PermissionError" in part.message


@pytest.mark.parametrize(("comment", "status"), [
    ("# " + "_" * 500_000, "pass"),
    ("# __" + "reduce" * 50_000, "pass"),
    ("?help\n" * 600, "error"),
    ("(\n" * 50_000, "error"),
], ids=["underscores", "a long name", "magics", "brackets"])  # fmt: skip
def test_no_text_keeps_the_marker_busy(learner, player, comment, status):
    part = learner("00").answer(neighbors=f"{NEIGHBORS}\n{comment}").part(player, "neighbors")
    assert part.status == status


@LONG
def test_nobody_holds_up_a_class_for_longer_than_their_time(learner, jails):
    player = Player(7_002, seconds=0)
    started = time.monotonic()
    mark = learner("00").marked(player)
    player.close()
    assert {part.status for part in mark.parts} == {"hang"}
    assert "Left out: all together took more than 0 s." in mark.parts[0].message
    assert "Deadlock" not in mark.parts[0].message
    assert time.monotonic() - started < 10


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's jails have users of their own")
def test_nothing_outlives_its_jail(learner, jails):
    text = neighbors("if os.fork() == 0:", "    os.setsid()", "    time.sleep(123456)")
    player = Player(7_000)
    learner("00").answer(neighbors=text).marked(player, "neighbors")
    assert processes_of(64_000 + 7_000)
    player.close()
    until = time.monotonic() + 10
    while processes_of(64_000 + 7_000) and time.monotonic() < until:
        time.sleep(0.1)
    assert not processes_of(64_000 + 7_000)


def processes_of(user):
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += [path.name] if path.stat().st_uid == user else []
    return found


@LONG
def test_many_processes_that_share_a_lot_of_memory_are_stopped(learner, jails):
    player = Player(7_001, JailLimits(memory=1 << 30))
    text = neighbors("held = bytearray(os.urandom(1 << 20) * 500)", "time.sleep(60)")
    part = learner("00").answer(neighbors=text).part(player, "neighbors")
    player.close()
    assert part.points == 0
    assert "GiB of memory; the limit is 1 GiB." in part.message


@pytest.mark.parametrize("how", some(["edited", "deleted", "moved"], "edited"))
def test_a_check_cell_that_was_tampered_with_is_told_and_marked_by_the_original(learner, player, how):
    hostile = learner("00")
    cell = hostile.cell("check_neighbors")
    if how == "edited":
        cell["source"] = "1.0"
    elif how == "deleted":
        hostile.notebook["cells"].remove(cell)
    else:
        hostile.notebook["cells"].remove(cell)
        hostile.notebook["cells"].insert(0, cell)
    hostile.answer(neighbors="def neighbors(rank, ranks):\n    return 0, 0")
    part = hostile.part(player, "neighbors")
    assert part.points == 0
    assert part.status == ("tampered" if how == "edited" else "wrong")


@LONG
def test_stored_outputs_and_counts_are_nothing(learner, player):
    hostile = learner("00").untouched()
    for cell in hostile.notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = 1
            cell["outputs"] = [{"output_type": "execute_result", "execution_count": 1, "metadata": {},
                                "data": {"text/plain": "1.0"}}]  # fmt: skip
    assert hostile.marked(player).points == 0


def test_answers_that_look_behind_the_scene_are_given_to_a_person(learner, player):
    text = f"import gc, ctypes\n{NEIGHBORS}"
    mark = learner("00").answer(neighbors=text).marked(player, "neighbors")
    assert mark.to_read == ("The answer cell neighbors says ctypes, gc.",)
    assert mark.remarks == ()  # the student's page says nothing of it
