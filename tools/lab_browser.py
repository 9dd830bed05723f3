"""A real JupyterLab server and a real browser, for the browser tests and for tools/look.py.

Server and browser listen on loopback only, use folders of their own, and end when their `with` block ends.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from course_lib.doctor import BROWSER_PACKAGE, find_browser
from course_lib.processes import end_with_parent
from course_lib.working_copy import LAB_SETTINGS

PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"  # the notebook in front
START_LIMIT = 60  # seconds until the server must have started, or a page must have shown its notebook
LAB = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", "--port=0"]
CHROMIUM_FLAGS = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # Chromium would ask its maker's servers for updates and settings; a test talks to loopback only.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

SETTINGS = {
    # Without this a pop-up asks about news, and covers a corner of every picture.
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # Else a last screenful of nothing follows each notebook.
    "notebook-extension/tracker": {"scrollPastEnd": False,
                                   **LAB_SETTINGS["@jupyterlab/notebook-extension:tracker"]},
}


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: `url` ends in a slash; a request without the token is refused."""

    url: str
    token: str
    root: Path

    def address(self, notebook: str) -> str:
        """Where a browser finds a notebook, a path relative to the server's root; holds the token.

        `reset` keeps JupyterLab from opening again what was open before.
        """
        return f"{self.url}lab/tree/{quote(notebook)}?reset&token={self.token}"


@contextlib.contextmanager
def jupyter_server(root: Path, command: list[str] | None = None) -> Iterator[Server]:
    """JupyterLab on a free port, with `root` as its folder; ended with all its kernels at the end.

    `command` starts a server some other way, such as `course lab`, which must choose loopback and a free port
    by itself.
    """
    with tempfile.TemporaryDirectory(prefix="course-jupyter-") as private:
        folders = private_folders(Path(private))
        command = command or [*LAB, f"--ServerApp.root_dir={root}"]
        log = Path(private, "server.log")
        with log.open("w") as output:
            process = subprocess.Popen(
                [*command, *server_options()], env=os.environ | folders, cwd=root,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                # A killed test run ends no `with` block.  Kernels end by themselves without their server.
                preexec_fn=partial(end_with_parent, parent=os.getpid()),
            )  # fmt: skip
        try:
            info = wait_for_server(process, Path(folders["JUPYTER_RUNTIME_DIR"]), log)
            yield Server(info["url"], info["token"], Path(info["root_dir"]))
        finally:
            end_with_children(process)


def server_options() -> list[str]:
    options = ["--no-browser", "--expose-app-in-browser"]
    return [*options, "--allow-root"] if is_root() else options


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def private_folders(private: Path) -> dict[str, str]:
    """Environment variables that keep a server away from its user's settings, and the settings it needs."""
    names = ["JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_SETTINGS_DIR",
             "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR"]  # fmt: skip
    folders = {name: str(private / name.lower()) for name in names}
    for folder in folders.values():
        os.mkdir(folder)
    for name, settings in SETTINGS.items():
        file = Path(folders["JUPYTERLAB_SETTINGS_DIR"], "@jupyterlab", f"{name}.jupyterlab-settings")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
    return folders


def wait_for_server(process: subprocess.Popen, runtime: Path, log: Path) -> dict:
    """The server's own description of itself, once it answers."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with status {process.returncode}:\n{log.read_text()}")
        for file in runtime.glob("jpserver-*.json"):
            # The file may be half written, and is written before the server listens.
            with contextlib.suppress(json.JSONDecodeError, urllib.error.URLError):
                info = json.loads(file.read_text())
                urllib.request.urlopen(f"{info['url']}api", timeout=5).close()
                return info
        time.sleep(0.1)
    raise TimeoutError(f"JupyterLab did not start within {START_LIMIT} s:\n{log.read_text()}")


def end_with_children(process: subprocess.Popen) -> None:
    """End a process and all that it started: politely first, so that kernels clean up after themselves."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    _, alive = psutil.wait_procs(children, timeout=3)
    for child in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(alive, timeout=5)
    if process.poll() is None:
        process.kill()
        process.wait()


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Headless Chromium; RuntimeError names the package where there is none."""
    path = find_browser()
    if path is None:
        raise RuntimeError(f"No Chromium found. {BROWSER_PACKAGE}")
    flags = [*CHROMIUM_FLAGS, "--no-sandbox"] if is_root() else CHROMIUM_FLAGS  # the sandbox refuses root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class NotebookPage:
    """A notebook open in JupyterLab. `errors` gathers what the page wrote to its console as errors."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def run_all(self, limit: float = 180) -> dict:
        """Run all cells by the menu, as a learner does; returns the notebook as it stands when all is idle.

        A cell that raises stops the run, so look for "error" among the outputs. TimeoutError after `limit` s.
        """
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
        self.page.locator(".lm-Menu-itemLabel").get_by_text("Run All Cells", exact=True).click()
        self.page.wait_for_function(ALL_HAVE_RUN, timeout=limit * 1000)
        self.wait_until_idle(limit)
        return self.notebook()

    def wait_until_idle(self, limit: float = START_LIMIT) -> None:
        self.page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for(timeout=limit * 1000)

    def notebook(self) -> dict:
        """The notebook with its outputs, as the browser holds it."""
        return self.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.toJSON()")

    def dialogs(self) -> list[str]:
        """The texts of what has popped up over the page."""
        return self.page.locator(".jp-Dialog, .Toastify__toast").all_inner_texts()

    def screenfuls(self) -> Iterator[int]:
        """Scroll from top to bottom, with a little overlap; yields 1, 2, ... while each is in view."""
        position, number = 0.0, 0
        while True:
            view = self.page.evaluate(SCROLL, position)
            self.page.wait_for_timeout(300)  # cells and pictures that come into view are drawn only then
            number += 1
            yield number
            if self.page.evaluate(AT_END):
                return
            position = view["position"] + 0.9 * view["height"]

    def pictures(self, folder: Path) -> list[Path]:
        """A PNG of each screenful: 001.png, 002.png, ..."""
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for number in self.screenfuls():
            files.append(folder / f"{number:03}.png")
            self.page.locator(PANEL).screenshot(path=files[-1])
        return files

    def outputs(self) -> "Seen":
        """What outputs show, gathered while scrolling: JupyterLab draws only what is in view."""
        screens = [self.page.evaluate(OUTPUTS) for _ in self.screenfuls()]
        texts = dict.fromkeys(text for screen in screens for text in screen["texts"])
        return Seen("\n".join(texts), len({image for screen in screens for image in screen["images"]}))


@dataclass(frozen=True)
class Seen:
    """The texts of all outputs, and how many different images the browser could decode in them."""

    text: str
    images: int


# A run is over when no cell waits and either all have run, or one has raised.
ALL_HAVE_RUN = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model)
    .filter(cell => cell.type === 'code' && cell.sharedModel.getSource().trim());
  const raised = cells.some(cell => cell.outputs.toJSON().some(output => output.output_type === 'error'));
  return cells.every(cell => cell.executionState !== 'running')
    && (raised || cells.every(cell => cell.executionCount));
}"""

OUTPUTS = """() => {
  const outputs = [...document.querySelectorAll('.jp-OutputArea-output')];
  const images = outputs.flatMap(output => [...output.querySelectorAll('img')]);
  return {texts: outputs.map(output => output.innerText),
          images: images.filter(image => image.complete && image.naturalWidth > 0).map(image => image.src)};
}"""

VIEW = f"document.querySelector('{PANEL} .jp-WindowedPanel-outer')"  # what scrolls

SCROLL = f"""position => {{
  const view = {VIEW};
  view.scrollTop = position;
  return {{position: view.scrollTop, height: view.clientHeight}};
}}"""

# On a busy machine the page is short at first, since its cells come one by one.
AT_END = f"""() => {{
  const view = {VIEW};
  const last = window.jupyterapp.shell.currentWidget.content.widgets.at(-1).node;
  return last.isConnected && view.scrollTop + view.clientHeight >= view.scrollHeight - 2;
}}"""


@contextlib.contextmanager
def open_notebook(
    browser: Browser, server: Server, notebook: str, width: int = 1400, height: int = 1000
) -> Iterator[NotebookPage]:
    """Open a notebook, wait for its kernel, and leave the width to it by closing the file browser."""
    page = browser.new_page(viewport={"width": width, "height": height})
    opened = NotebookPage(page)
    page.on("console", lambda message: message.type == "error" and opened.errors.append(message.text))
    page.on("pageerror", lambda error: opened.errors.append(str(error)))
    try:
        page.goto(server.address(notebook))
        page.locator(f"{PANEL} .jp-Cell").first.wait_for(timeout=START_LIMIT * 1000)
        opened.wait_until_idle()
        page.evaluate("window.jupyterapp.shell.collapseLeft()")
        yield opened
    finally:
        page.close()


def copy_of_folder(notebook: Path, into: Path) -> Path:
    """A copy of a notebook's folder, so that a run changes nothing; returns the copied notebook."""
    hidden = shutil.ignore_patterns(".*", "__pycache__")
    shutil.copytree(notebook.parent, into, ignore=hidden, dirs_exist_ok=True)
    return into / notebook.name
