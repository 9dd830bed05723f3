"""Why network namespaces are refused: from the kernel itself where it can be had, else from its files."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from course_lib import namespaces
from course_lib.namespaces import Failure, explain

ASK = "from course_lib import namespaces; print(namespaces.refusal())"


def files(**texts):
    """A reader of /proc in which only these files hold anything: name of the file -> text."""
    return lambda path: texts.get(os.path.basename(path), "")


def refused(step="user namespace", number=errno.EPERM):
    return Failure(step, number, os.strerror(number))


def test_ubuntus_apparmor_rule_is_named_with_its_remedy():
    text = explain(refused("user mapping"), files(apparmor_restrict_unprivileged_userns="1"))
    assert "AppArmor" in text
    assert text.endswith("sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0")


def test_an_allowing_rule_is_not_blamed():
    text = explain(refused(), files(apparmor_restrict_unprivileged_userns="0", unprivileged_userns_clone="1"))
    assert text == "The user namespace was refused (Operation not permitted)."


def test_debians_setting_is_named():
    text = explain(refused(), files(unprivileged_userns_clone="0"))
    assert "sudo sysctl kernel.unprivileged_userns_clone=1" in text


@pytest.mark.parametrize(("step", "setting"), [("user namespace", "user.max_user_namespaces"),
                                               ("network namespace", "user.max_net_namespaces")])  # fmt: skip
def test_a_limit_that_is_used_up_is_named_with_its_value(step, setting):
    text = explain(refused(step, errno.ENOSPC), files(max_user_namespaces="7", max_net_namespaces="7"))
    assert f"{setting}=7" in text


def test_a_containers_filter_is_named():
    assert "seccomp" in explain(refused(), files(status="Name:\tpython\nSeccomp:\t2\nSeccomp_filters:\t1"))
    assert "seccomp" not in explain(refused(), files(status="Name:\tpython\nSeccomp:\t0"))


MISSING = [
    ("iproute2 is not installed: no tc", "apt install iproute2"),
    ("Error: Unknown device type.", "modprobe veth"),
    ("Specified qdisc kind is unknown.", "modprobe sch_tbf"),
]


@pytest.mark.parametrize(("message", "remedy"), MISSING)
def test_what_links_lack_is_named(message, remedy):
    assert remedy in explain(Failure("links", 0, message), files())


def test_other_systems_have_none(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "part of Linux" in namespaces.refusal()


def ask_inside(*wrapper):
    """What a process says that runs inside `wrapper`; skipped where the wrapper itself is refused."""
    if shutil.which("unshare") is None or subprocess.run([*wrapper, "true"], capture_output=True).returncode:
        pytest.skip("this machine refuses user namespaces, so no limit inside one can be tried")
    command = [*wrapper, sys.executable, "-c", ASK]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("kind", ["user", "net"])
def test_the_kernels_own_refusal(kind):
    """Inside a user namespace we may set its limits to 0: a real refusal, whatever this machine allows."""
    limited = f'echo 0 > /proc/sys/user/max_{kind}_namespaces && exec "$@"'
    text = ask_inside("unshare", "--user", "--map-root-user", "sh", "-c", limited, "sh")
    assert f"user.max_{kind}_namespaces=0" in text


def test_missing_programs_are_said(monkeypatch, tmp_path):
    monkeypatch.setattr(namespaces, "SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="iproute2 is not installed"):
        namespaces.program("ip", "link")


def test_the_attempt_leaves_this_process_where_it_is():
    before = os.readlink("/proc/self/ns/net") if sys.platform == "linux" else None
    namespaces.refusal()
    assert (os.readlink("/proc/self/ns/net") if sys.platform == "linux" else None) == before
