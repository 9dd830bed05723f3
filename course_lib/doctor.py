import os
import shutil

BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER_PACKAGE = "On Debian: sudo apt install chromium. Elsewhere set COURSE_BROWSER to Chromium's or Chrome's path."


def find_browser() -> str | None:
    """The browser that tests drive: COURSE_BROWSER, else the first Chromium or Chrome on PATH."""
    return os.environ.get("COURSE_BROWSER") or next(filter(None, map(shutil.which, BROWSER_NAMES)), None)
