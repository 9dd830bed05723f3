"""What must not stand in the project's files: package registries' addresses, and paths of one machine."""

import re
from pathlib import Path

from tests.environment.repository import ROOT, tracked_files

REGISTRIES = r"pypi\.org|pythonhosted|download\.pytorch|conda\.anaconda|registry\.npmjs|deb\.debian|ghcr\.io"
LOCAL_PATHS = r"/root/|/work/(?:main|shared)|/tmp/(?:tmp|w/)|/opt/pypi"
THIS = str(Path(__file__).relative_to(ROOT))


def lines_matching(pattern: str) -> list[str]:
    found = []
    for path in tracked_files():
        if path == THIS:
            continue
        text = (ROOT / path).read_text(encoding="utf-8", errors="ignore")
        found += [f"{path}: {line[:120]}" for line in text.splitlines() if re.search(pattern, line)]
    return found


def test_no_registry_is_named():
    assert lines_matching(REGISTRIES) == []


def test_no_path_of_one_machine():
    here = "|".join(re.escape(f"{folder}/") for folder in (ROOT, Path.home()))
    assert lines_matching(f"{LOCAL_PATHS}|{here}") == []


def test_the_search_finds_what_it_looks_for():
    assert re.search(REGISTRIES, "--index-url https://pypi.org/simple")
    assert re.search(LOCAL_PATHS, "see /root/x")
    assert lines_matching("Keep the outputs of notebooks, and take the noise")
