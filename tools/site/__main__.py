"""Build the course as a static web site: `make site`.

    .venv-site/bin/python -m tools.site [FOLDER]        _site, if no FOLDER is given

Nothing is executed, nothing is fetched, and the pages fetch nothing from elsewhere.  What was in the folder
goes when the new site is complete; a folder that holds something else is left alone.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.site.pages import write_pages

LIMIT = 600  # seconds; it takes about half a minute
MARK = "searchindex.js"  # by which a site is known


def build(target: Path) -> int:
    """Returns the number of pages.  Raises RuntimeError with what Jupyter Book said if it finds a fault."""
    with tempfile.TemporaryDirectory(prefix="course-site-") as private:
        source, out = Path(private, "source"), Path(private, "out")
        source.mkdir()
        write_pages(source)
        _run_jupyter_book(source, out)
        if target.exists():
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(out / "_build" / "html", target)
    return sum("_static" not in page.parts for page in target.rglob("*.html"))


def _run_jupyter_book(source: Path, out: Path) -> None:
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    command = [jupyter_book, "build", source, "--path-output", out, "--warningiserror", "--nitpick",
               "--keep-going", "--quiet"]  # fmt: skip
    try:
        done = subprocess.run(command, timeout=LIMIT, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"Jupyter Book had not ended after {LIMIT} s:\n{late.output}") from None
    if done.returncode:
        raise RuntimeError(f"Jupyter Book ended with status {done.returncode}:\n{done.stdout}")


def main(argv: list[str] | None = None) -> int | str:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("_site"), help="by default _site")
    target = parser.parse_args(argv).folder.absolute()
    if target.exists() and any(target.iterdir()) and not (target / MARK).exists():
        return f"{target} holds something else than a site: name another folder."
    try:
        pages = build(target)
    except RuntimeError as fault:
        return str(fault)
    print(f"{target}: {pages} pages. To read them:")
    print(f'  {sys.executable} -m http.server --bind 127.0.0.1 --directory "{target}"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
