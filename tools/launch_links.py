"""Links that open a notebook on Binder, Colab or Kaggle, made from the project's public address.

    python tools/launch_links.py        writes README's links anew

The address is one setting, for README and for the web site: ``Repository`` under ``[project.urls]`` in
pyproject.toml.  Where it is not set there are no links.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BRANCH = "main"
FIRST = "notebooks/00_start_here.ipynb"
BLOCK = re.compile(r"(<!-- launch links: .*? -->\n).*?(<!-- end of launch links -->)", re.DOTALL)


def repository(root: Path = ROOT) -> str:
    """OWNER/NAME on GitHub, or "" while the project has no address.

    Raises ValueError for another kind of address, since the three services take notebooks from GitHub.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "")
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", address)
    if address and not found:
        raise ValueError(f"Repository = {address!r}: expected https://github.com/OWNER/NAME")
    return found[1] if found else ""


def links(repository: str, notebook: str) -> str:
    """Links in Markdown for a notebook, a path in the repository; "" without a repository."""
    if not repository:
        return ""
    places = {
        "Binder": f"https://mybinder.org/v2/gh/{repository}/{BRANCH}?urlpath=lab/tree/{notebook}",
        "Colab": f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/{notebook}",
        "Kaggle": f"https://kaggle.com/kernels/welcome?src=https://github.com/{repository}/blob/{BRANCH}/{notebook}",
    }
    return "Open it on " + " · ".join(f"[{name}]({address})" for name, address in places.items())


def with_links(readme: str, repository: str) -> str:
    """README's text with its links to lesson 00, or with none.  Raises ValueError where it has no place."""
    if not BLOCK.search(readme):
        raise ValueError("README.md has no place for launch links: expected the comments around it")
    text = links(repository, FIRST)
    block = f"Lesson 00, without installing anything: {text[0].lower()}{text[1:]}.\n" if text else ""
    return BLOCK.sub(lambda found: found[1] + block + found[2], readme)


def main() -> int:
    readme = ROOT / "README.md"
    readme.write_text(with_links(readme.read_text(encoding="utf-8"), repository()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
