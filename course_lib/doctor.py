"""`course doctor`: whether the course can run on this machine, line by line, and what to do where it can't.

Each check is a function that returns a Finding. What it looks at can be handed to it, so that its answer for
other machines can be tested on this one.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from course_lib import machine, namespaces

OK, NOTE, PROBLEM = "ok", "note", "problem"

GIB = 2**30
PYTHON_MINORS = range(11, 15)  # Python 3.x that torch 2.13.0 is built for
BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER_PACKAGE = (
    "On Debian: sudo apt install chromium. Elsewhere set COURSE_BROWSER to the path of Chromium or Chrome."
)
REINSTALL = "In the course's folder: make lab. With conda: pip install -c requirements.lock -e ."
LOOPBACK = "Ranks talk over 127.0.0.1. Look whether a firewall or a container forbids that."
PACED = "The lessons on slow links pace them in software instead."


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, `ok`, `note` or `problem`, what was seen, what to do."""

    name: str
    status: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.status:<9}{self.name:<16}{self.text}"
        return f"{line}\n{'':25}-> {self.remedy}" if self.remedy else line


def check_python(version: Sequence[int] = sys.version_info[:3]) -> Finding:
    text = ".".join(map(str, version[:3]))
    if version[0] == 3 and version[1] in PYTHON_MINORS:
        return Finding("Python", OK, text)
    return Finding("Python", PROBLEM, text, "The course needs Python 3.11 to 3.14.")


def check_system(system: str = sys.platform) -> Finding:
    if system.startswith("linux"):
        return Finding("system", OK, platform.platform(terse=True))
    if system == "darwin":
        return Finding("system", NOTE, f"macOS: a call of ranks takes some seconds. {PACED}")
    advice = "On Windows use WSL, where all works as on Linux: README.md, \"Windows and macOS\"."
    return Finding("system", NOTE, f"no Linux: a call of ranks takes some seconds. {PACED}", advice)


def check_packages(
    required: Sequence[str] | None = None, version: Callable[[str], str] = importlib.metadata.version
) -> Finding:
    """Whether each of the course's direct dependencies is there in exactly its version."""
    try:
        required = direct_dependencies() if required is None else required
    except importlib.metadata.PackageNotFoundError:
        return Finding("packages", PROBLEM, "the course itself is not installed", REINSTALL)
    wrong = [text for line in required if (text := difference(line, version))]
    if wrong:
        return Finding("packages", PROBLEM, "; ".join(wrong), REINSTALL)
    return Finding("packages", OK, f"all {len(required)} in their exact versions")


def direct_dependencies() -> list[str]:
    """The learner's ones, without those of the extras: `name==version`, as pyproject.toml has them."""
    return [line for line in importlib.metadata.requires("course-lib") or () if "extra ==" not in line]


def difference(requirement: str, version: Callable[[str], str]) -> str:
    """What is wrong about one `name==version`; empty if nothing is. A build such as 2.13.0+cpu is right."""
    name, wanted = re.split("==", requirement)
    try:
        found = version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name} is missing"
    return "" if found.split("+")[0] == wanted else f"{name} is {found}, not {wanted}"


def check_torch(load: Callable = lambda: importlib.import_module("torch")) -> Finding:
    try:
        torch = load()
    except (ImportError, OSError) as error:  # OSError: a library that it needs can't be loaded
        return Finding("torch", PROBLEM, f"can't be imported: {error}", REINSTALL)
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        text = f"{torch.__version__} has no gloo, so ranks can't communicate"
        return Finding("torch", PROBLEM, text, REINSTALL)
    return Finding("torch", OK, f"{torch.__version__}, with gloo")


def check_cores(usable: int | None = None, present: int | None = None) -> Finding:
    usable = usable or machine.usable_cores()
    present = present or os.cpu_count() or usable
    text = f"{usable} usable" + (f" of {present}" if present > usable else "")
    if usable == 1:
        return Finding("cores", NOTE, text, "All lessons run, but more ranks are never faster here.")
    return Finding("cores", OK, text)


def check_memory(limit: int | None = None) -> Finding:
    """Against 8 ranks with a small model beside JupyterLab and its kernel.

    Measured: the ranks take 0.4 GiB together where they are forked (Linux) and 1.3 GiB elsewhere.
    """
    limit = limit or machine.memory_limit()
    if limit is None:
        return Finding("memory", NOTE, "unknown", "8 ranks, JupyterLab and its kernel need 2 GiB.")
    text = f"{limit / GIB:.1f} GiB"
    if limit < GIB:
        return Finding("memory", PROBLEM, text, "The course needs 1 GiB for 2 ranks, and 2 GiB for 8.")
    if limit < 2 * GIB:
        return Finding("memory", NOTE, text, "8 ranks need 2 GiB: use 4, or close other notebooks first.")
    return Finding("memory", OK, f"{text}, enough for 8 ranks")


def check_shared_memory(folder: str = "/dev/shm", total: int | None = None) -> Finding:
    if total is None:
        if not os.path.isdir(folder):
            return Finding("shared memory", OK, f"no {folder} on this system; ranks on the CPU don't need it")
        total = shutil.disk_usage(folder).total
    text = f"{total / GIB:.2f} GiB in {folder}"
    if total < GIB:
        advice = "Enough on the CPU. NCCL between GPUs needs 1 GiB: docker run --shm-size=1g ..."
        return Finding("shared memory", NOTE, text, advice)
    return Finding("shared memory", OK, text)


def check_temporary_folder(folder: str | None = None, free: int | None = None) -> Finding:
    """Ranks meet through a small file there, and large results pass through it."""
    folder = folder or tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"course")
    except OSError as error:
        advice = "Set TMPDIR to a folder on a local disk that you may write to."
        return Finding("temporary files", PROBLEM, f"{folder}: {error.strerror}", advice)
    free = shutil.disk_usage(folder).free if free is None else free
    text = f"{free / GIB:.1f} GiB free in {folder}"
    if free < GIB:
        return Finding("temporary files", NOTE, text, "Free at least 1 GiB, or set TMPDIR to a larger disk.")
    return Finding("temporary files", OK, text)


def run_program(*command: str) -> str | None:
    """What a program prints; None if there is no such program, or it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def check_gpus(
    run: Callable[..., str | None] = run_program, usable: int | None = None, build: str | None = None
) -> Finding:
    """GPUs by the driver's word, their links, and whether this torch can use them.

    `usable` is how many torch sees, `build` the CUDA version that torch was built for, "" for a CPU build.
    """
    listed = run("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    names = [line.strip() for line in (listed or "").splitlines() if line.strip()]
    if not names:
        return Finding("GPUs", OK, "none: ranks run on the CPU, and all lessons do too")
    if usable is None or build is None:
        usable, build = torch_and_gpus()
    text = f"{len(names)}: " + summary(names) + (link_summary(run) if len(names) > 1 else "")
    if usable:
        return Finding("GPUs", OK, f"{text}; {usable} usable by this torch")
    if not build:
        advice = "Ranks use the CPU. To use the GPUs: rm -r .venv, then make lab without TORCH_INDEX."
        return Finding("GPUs", NOTE, text + "; this torch is built for the CPU only", advice)
    advice = "Ranks use the CPU. Look at CUDA_VISIBLE_DEVICES and the driver's version (nvidia-smi)."
    return Finding("GPUs", NOTE, f"{text}; torch (CUDA {build}) can't use them", advice)


def torch_and_gpus() -> tuple[int, str]:
    try:
        import torch
    except (ImportError, OSError):  # has its own line in the report
        return 0, ""
    return torch.cuda.device_count(), torch.version.cuda or ""


def summary(names: Sequence[str]) -> str:
    """Each name once, with how often it is there: "8 × A" for eight times the same."""
    counts = {name: names.count(name) for name in names}
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def link_summary(run: Callable[..., str | None]) -> str:
    """The kinds of links between GPUs in the driver's words: NV18 (NVLink, 18 lanes), PIX, PHB, SYS, ..."""
    rows = re.findall(r"^GPU\d+\s+(.*)$", run("nvidia-smi", "topo", "-m") or "", re.MULTILINE)
    kinds = sorted({word for row in rows for word in row.split()[: len(rows)]} - {"X"})
    return f"; links {', '.join(kinds)}" if kinds else ""


def sum_over_ranks() -> float:
    import torch
    import torch.distributed as dist

    total = torch.tensor(dist.get_rank() + 1.0)
    dist.all_reduce(total)
    return total.item()


def check_ranks(run: Callable | None = None) -> Finding:
    """Two ranks add their numbers over gloo on loopback, as all lessons do."""
    if run is None:
        from course_lib import ranks

        run = ranks.run
    try:
        sums = run(sum_over_ranks, 2, device="cpu", timeout=60)
    except Exception as error:  # whatever it is, the report goes on
        return Finding("two ranks", PROBLEM, f"{type(error).__name__}: {error}", LOOPBACK)
    if sums != [3.0, 3.0]:
        return Finding("two ranks", PROBLEM, f"their sums are {sums}, not [3.0, 3.0]", LOOPBACK)
    return Finding("two ranks", OK, "an all-reduce over gloo on loopback")


def check_namespaces(refusal: Callable[[], str | None] = namespaces.refusal) -> Finding:
    reason = refusal()
    if reason is None:
        return Finding("slow links", OK, "network namespaces with rate-limited links, without root")
    return Finding("slow links", NOTE, f"no network namespaces. {PACED}", reason)


def check_jupyterlab(find: Callable[[str], object] = importlib.util.find_spec) -> Finding:
    missing = [name for name in ("jupyterlab", "ipykernel", "ipywidgets") if find(name) is None]
    if missing:
        return Finding("JupyterLab", PROBLEM, f"{', '.join(missing)} not installed", REINSTALL)
    return Finding("JupyterLab", OK, importlib.metadata.version("jupyterlab"))


def check_kernel(prefix: str = sys.prefix) -> Finding:
    """The kernel of this very environment, and no other Python's that Jupyter may know of."""
    if os.path.exists(os.path.join(prefix, "share", "jupyter", "kernels", "python3", "kernel.json")):
        return Finding("kernel", OK, "python3, of this environment")
    remedy = f"{sys.executable} -m ipykernel install --sys-prefix"
    return Finding("kernel", PROBLEM, "this environment has none", remedy)


def find_browser() -> str | None:
    """The browser that tests drive: COURSE_BROWSER, else the first Chromium or Chrome on PATH."""
    return os.environ.get("COURSE_BROWSER") or next(filter(None, map(shutil.which, BROWSER_NAMES)), None)


def check_browser(find: Callable[[], str | None] = find_browser) -> Finding:
    path = find()
    if path is None:
        return Finding("test browser", NOTE, "none; only the browser tests need one", BROWSER_PACKAGE)
    return Finding("test browser", OK, path)


CHECKS = (
    check_python,
    check_system,
    check_packages,
    check_torch,
    check_cores,
    check_memory,
    check_shared_memory,
    check_temporary_folder,
    check_ranks,
    check_gpus,
    check_namespaces,
    check_jupyterlab,
    check_kernel,
    check_browser,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings for a program to read")


def main(arguments: argparse.Namespace) -> int:
    findings = []
    for check in CHECKS:
        findings.append(check())
        if not arguments.json:
            print(findings[-1], flush=True)
    problems = sum(finding.status == PROBLEM for finding in findings)
    if arguments.json:
        report = {"ok": not problems, "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(report, indent=1))
    else:
        print(verdict(problems))
    return 1 if problems else 0


def verdict(problems: int) -> str:
    if not problems:
        return "The course can run here."
    return f"The course can't run here yet: {problems} problem{'s' if problems > 1 else ''} above."
