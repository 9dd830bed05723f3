"""Each line of `course doctor`: right on this machine, and right about machines that lack something."""

import importlib.metadata
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from course_lib import doctor
from course_lib.doctor import GIB, NOTE, OK, PROBLEM


def run_doctor(*options):
    command = [sys.executable, "-m", "course_lib", "doctor", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_this_machine_can_run_the_course():
    done = run_doctor("--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr == ""
    assert report["ok"] is True
    assert len(report["findings"]) == len(doctor.CHECKS)
    assert {finding["status"] for finding in report["findings"]} <= {OK, NOTE}


def test_the_report_for_people_has_a_line_for_each_check_and_its_remedy(capsys, monkeypatch):
    checks = (lambda: doctor.check_cores(2, 2), lambda: doctor.check_cores(1, 1))
    monkeypatch.setattr(doctor, "CHECKS", checks)
    assert doctor.main(SimpleNamespace(json=False)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "note", "->", "The"]
    assert lines[-1] == "The course can run here."


def test_one_problem_makes_the_exit_status_1(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", (lambda: doctor.check_python((3, 9, 1)),))
    assert doctor.main(SimpleNamespace(json=False)) == 1
    assert "The course can't run here yet: 1 problem above." in capsys.readouterr().out


@pytest.mark.parametrize(("version", "status"), [((3, 10, 9), PROBLEM), ((3, 11, 0), OK), ((3, 14, 2), OK),
                                                 ((3, 15, 0), PROBLEM)])  # fmt: skip
def test_python(version, status):
    finding = doctor.check_python(version)
    assert finding.status == status
    assert (finding.remedy != "") == (status == PROBLEM)


def test_system():
    assert doctor.check_system("linux").status == OK
    assert "macOS" in doctor.check_system("darwin").text
    assert "WSL" in doctor.check_system("win32").remedy


def test_packages_of_this_environment():
    assert doctor.check_packages().status == OK


def test_packages_missing_or_of_another_version():
    def version(name):
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return {"numpy": "1.0", "tqdm": "4.70.1+local"}[name]

    finding = doctor.check_packages(["torch==2.13.0", "numpy==2.4.6", "tqdm==4.70.1"], version)
    assert finding.status == PROBLEM
    assert finding.text == "torch is missing; numpy is 1.0, not 2.4.6"


def test_torch_that_cannot_be_imported_or_has_no_gloo():
    def broken():
        raise OSError("libgomp.so.1: cannot open shared object file")

    assert "libgomp" in doctor.check_torch(broken).text
    without = SimpleNamespace(is_available=lambda: True, is_gloo_available=lambda: False)
    finding = doctor.check_torch(lambda: SimpleNamespace(__version__="2.13.0", distributed=without))
    assert (finding.status, "gloo" in finding.text) == (PROBLEM, True)


def test_cores():
    assert doctor.check_cores(2, 8) == doctor.Finding("cores", OK, "2 usable of 8")
    assert doctor.check_cores(1, 1).status == NOTE


@pytest.mark.parametrize(("limit", "status"), [(GIB // 2, PROBLEM), (int(1.5 * GIB), NOTE), (2 * GIB, OK)])
def test_memory(limit, status):
    assert doctor.check_memory(limit).status == status


def test_shared_memory(tmp_path):
    assert doctor.check_shared_memory(str(tmp_path), 64 * 2**20).status == NOTE
    assert doctor.check_shared_memory(str(tmp_path), GIB).status == OK
    assert doctor.check_shared_memory(str(tmp_path / "none")).status == OK


def test_temporary_folder(tmp_path):
    assert doctor.check_temporary_folder(str(tmp_path), 2 * GIB).status == OK
    assert doctor.check_temporary_folder(str(tmp_path), GIB // 2).status == NOTE
    finding = doctor.check_temporary_folder(str(tmp_path / "none"))
    assert (finding.status, "TMPDIR" in finding.remedy) == (PROBLEM, True)


def driver(listed, topology=""):
    """nvidia-smi, as it answers on some machine; None: no driver."""
    return lambda *command: topology if "topo" in command else listed


def test_gpus():
    assert doctor.check_gpus(driver(None)).text.startswith("none")
    one = driver("NVIDIA H200, 143771 MiB\n")
    assert doctor.check_gpus(one, 1, "13.0").status == OK
    cpu_build = doctor.check_gpus(one, 0, "")
    assert (cpu_build.status, "built for the CPU only" in cpu_build.text) == (NOTE, True)
    assert "driver" in doctor.check_gpus(one, 0, "13.0").remedy


def test_gpus_and_the_links_between_them():
    topology = (
        "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tNV18\tSYS\t0-15\t0\n"
        "GPU1\tNV18\t X \tSYS\t0-15\t0\n"
        "GPU2\tSYS\tSYS\t X \t16-31\t1\n"
    )
    finding = doctor.check_gpus(driver("A100, 81920 MiB\n" * 3, topology), 3, "13.0")
    assert finding.text == "3: 3 × A100, 81920 MiB; links NV18, SYS; 3 usable by this torch"


def test_ranks_that_fail_or_add_wrongly():
    def fails(*_, **__):
        raise RuntimeError("connectFullMesh failed")

    assert "connectFullMesh" in doctor.check_ranks(fails).text
    finding = doctor.check_ranks(lambda *_, **__: [1.0, 2.0])
    assert (finding.status, "[1.0, 2.0]" in finding.text) == (PROBLEM, True)


def test_refused_namespaces_are_a_note_with_the_reason():
    finding = doctor.check_namespaces(lambda: "AppArmor forbids them.")
    assert (finding.status, finding.remedy) == (NOTE, "AppArmor forbids them.")


def test_missing_jupyterlab_and_kernel(tmp_path):
    finding = doctor.check_jupyterlab(lambda name: None if name == "ipykernel" else object())
    assert (finding.status, finding.text) == (PROBLEM, "ipykernel not installed")
    assert doctor.check_kernel(str(tmp_path)).status == PROBLEM


def test_missing_browser_names_the_package():
    finding = doctor.check_browser(lambda: None)
    assert (finding.status, "apt install chromium" in finding.remedy) == (NOTE, True)
