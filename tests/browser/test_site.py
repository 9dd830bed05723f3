"""The web site as a reader sees it: built, served on loopback, and every page visited in Chromium."""

import functools
import json
import re
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tools.launch_links import repository

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BUILD_LIMIT = 900  # seconds, with the installation of what it is built with
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory) -> Path:  # the browser first: without one, nothing need be built
    folder = tmp_path_factory.mktemp("site") / "pages"
    done = subprocess.run(["make", "site", f"ARGS={folder}"], cwd=ROOT, timeout=BUILD_LIMIT,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join(timeout=10)


@dataclass
class Visit:
    """What a page held and did while it was looked at."""

    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # addresses of other hosts that it asked for
    seen: dict = field(default_factory=dict)


SEEN = r"""() => ({
  links: [...document.querySelectorAll('a[href]')].map(link => link.getAttribute('href')),
  places: [...document.querySelectorAll('[id]')].map(element => element.id),
  images: [...document.images].map(image => ({source: image.getAttribute('src'), alt: image.alt.trim(),
                                              drawn: image.complete && image.naturalWidth > 0})),
  formulas: document.querySelectorAll('.math').length,
  typeset: document.querySelectorAll('.math mjx-container').length,
  mistakes: document.querySelectorAll('mjx-merror, [data-mjx-error]').length,
  answers: document.querySelectorAll('article details:not(.hide)').length,
  unfolded: document.querySelectorAll('article details[open]').length,
  as_typed: [...document.querySelectorAll('article p, article li, article td')]
    .filter(element => !element.querySelector('code, .math')).map(element => element.innerText)
    .filter(text => /^#+ |\*\*|\]\(|\$\$|<\/?\w+>/.test(text)),
  folded_outputs: document.querySelectorAll('.cell details.hide').length,
  widgets: document.querySelectorAll('script[type*="jupyter.widget"]').length,
  classes: [...new Set([...document.querySelectorAll('.cell')].flatMap(cell => [...cell.classList]))],
  text: document.body.textContent,
})"""


@pytest.fixture(scope="module")
def pages(site) -> list[str]:
    """Paths of all pages, relative to the site."""
    paths = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    return sorted(path for path in paths if not path.startswith("_static/"))


@pytest.fixture(scope="module")
def visits(browser, address, pages) -> dict[str, Visit]:
    return {page: visit(browser, address, page) for page in pages}


def opened(browser: Browser, address: str, found: Visit) -> Page:
    """A page that notes what it complains of, and what it asks other hosts for, and does not get."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.on("console", lambda message: message.type == "error" and found.errors.append(message.text))
    page.on("pageerror", lambda error: found.errors.append(str(error)))

    def ask(route):
        if route.request.url.startswith((address, "data:")):
            return route.continue_()
        found.elsewhere.append(route.request.url)
        return route.abort()

    page.route("**/*", ask)
    return page


def visit(browser: Browser, address: str, path: str) -> Visit:
    found = Visit()
    page = opened(browser, address, found)
    try:
        page.goto(address + path, wait_until="networkidle")
        page.wait_for_function(
            "() => document.querySelectorAll('.math').length === 0 || "
            "(window.MathJax?.startup?.promise && document.querySelector('mjx-container'))"
        )
        page.evaluate("async () => { await window.MathJax?.startup?.promise; }")
        page.evaluate("document.querySelectorAll('img').forEach(image => { image.loading = 'eager'; })")
        page.wait_for_load_state("networkidle")
        found.seen = page.evaluate(SEEN)
    finally:
        page.close()
    return found


def everywhere(visits, what):
    """(page, value) of a list that each page has."""
    return [(page, each) for page, found in visits.items() for each in found.seen[what]]


def test_lessons_exercises_and_docs_are_pages(pages):
    notebooks = [f"{path.stem}.html" for path in LESSONS]
    exercises = [f"exercises/{path.stem}.html" for path in (ROOT / "exercises").glob("*.ipynb")]
    docs = [path.relative_to(ROOT).with_suffix(".html").as_posix() for path in (ROOT / "docs").glob("*.md")]
    wanted = {"index.html", "explorers.html", *notebooks, *exercises, *docs}
    assert len(notebooks) == len(exercises) == 9
    assert wanted - set(pages) == set()
    assert [page for page in pages if "instructor" in page] == []


def test_no_page_complains(visits):
    assert {page: found.errors for page, found in visits.items() if found.errors} == {}


def test_no_page_asks_another_host(visits):
    assert {page: found.elsewhere for page, found in visits.items() if found.elsewhere} == {}


def test_links_within_the_site_lead_somewhere(visits, site):
    broken, followed = [], 0
    for page, link in everywhere(visits, "links"):
        target, place = urldefrag(urljoin(f"http://site/{page}", link))
        if urlsplit(target).netloc != "site":
            continue
        path = unquote(urlsplit(target).path).lstrip("/") or "index.html"
        followed += 1
        there = path in visits if path.endswith(".html") else (site / path).is_file()
        if not there or (place and unquote(place) not in visits[path].seen["places"]):
            broken.append((page, link))
    assert followed > 1000 and broken == []


def test_links_out_of_it_are_whole(visits):
    others = {link for _, link in everywhere(visits, "links") if re.match(r"\w+:", link)}
    assert others
    assert [link for link in others if not re.match(r"https://[\w.-]+\.\w+(/|$)", link)] == []


def test_mathematics_is_typeset(visits):
    seen = {page: found.seen for page, found in visits.items()}
    assert sum(page["formulas"] for page in seen.values()) > 100
    assert {name for name, page in seen.items() if page["typeset"] != page["formulas"]} == set()
    assert {name for name, page in seen.items() if page["mistakes"]} == set()


def test_each_picture_is_drawn_and_described(visits):
    images = everywhere(visits, "images")
    assert len(images) > 50
    assert [(page, image["source"]) for page, image in images if not image["alt"] or not image["drawn"]] == []


def cells_of(path):
    return json.loads(path.read_text())["cells"]


def test_pictures_stand_in_for_sliders(visits):
    for path in LESSONS:
        outputs = [output for cell in cells_of(path) for output in cell.get("outputs", [])]
        pictures = [output for output in outputs if "image/png" in output.get("data", {})]
        assert len(visits[f"{path.stem}.html"].seen["images"]) == len(pictures), path.stem
    assert sum(found.seen["widgets"] for found in visits.values()) == 0


def test_answers_and_outputs_that_are_folded_in_the_lessons_are_folded(visits):
    for path in LESSONS:
        cells = cells_of(path)
        answers = sum("".join(cell["source"]).count("<details>") for cell in cells)
        folded = sum(cell["metadata"].get("jupyter", {}).get("outputs_hidden", False) for cell in cells)
        seen = visits[f"{path.stem}.html"].seen
        assert (seen["answers"], seen["folded_outputs"]) == (answers, folded), path.stem
        assert seen["unfolded"] == 0, path.stem


def test_markdown_is_not_shown_as_it_was_typed(visits):
    assert everywhere(visits, "as_typed") == []


def test_cells_show_no_tags(visits):
    tags = {name for _, name in everywhere(visits, "classes") if name.startswith("tag_")}
    assert tags <= {"tag_hide-output"}


def test_launch_links_are_there_when_the_project_has_an_address(visits):
    launch = re.compile("https:.*(mybinder|colab|kaggle)")
    links = [link for _, link in everywhere(visits, "links") if launch.match(link)]
    assert bool(links) == bool(repository())


def solution_lines() -> set[str]:
    """Lines that only solutions have: not the learner's notebooks, nor the library."""
    solutions = [json.loads(path.read_text()) for path in (ROOT / "exercises" / "solutions").glob("*.ipynb")]
    sources = ["".join(cell["source"]) for notebook in solutions for cell in notebook["cells"]]
    blocks = "\n".join(block for source in sources for block in SOLUTION.findall(source))
    known = [path.read_text() for path in (*LESSONS, *(ROOT / "exercises").glob("*.ipynb"))]
    known += [path.read_text() for path in (ROOT / "course_lib").rglob("*.py")]
    text = "\n".join(known).replace('\\"', '"')
    lines = {line.strip() for line in blocks.splitlines()}
    return {line for line in lines if len(line) > 25 and line not in text}


def test_no_solution_is_in_it(visits):
    lines = solution_lines()
    assert len(lines) > 100
    pages = {page: " ".join(found.seen["text"].split()) for page, found in visits.items()}
    assert [(page, line) for line in lines for page, text in pages.items() if line in text] == []


def test_search_finds_a_term(browser, address):
    found = Visit()
    page = opened(browser, address, found)
    try:
        page.goto(address + "search.html?q=deadlock")
        first = page.locator("#search-results li a").first
        first.wait_for(timeout=30_000)
        targets = page.locator("#search-results li a").evaluate_all("links => links.map(link => link.href)")
        assert any("00_start_here.html" in target for target in targets), targets
        first.click()
        page.wait_for_load_state("networkidle")
        assert "deadlock" in page.locator("body").inner_text().lower()
    finally:
        page.close()
    assert found.errors == found.elsewhere == []
