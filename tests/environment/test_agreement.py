"""One source of versions: pyproject.toml, requirements.lock, environment.yml and what is installed agree."""

import importlib.metadata
import re
import sysconfig
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from course_lib import __version__, doctor
from tests.environment.repository import ROOT
from tools import environment

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
SITE = PYPROJECT["dependency-groups"]["site"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = PROJECT["dependencies"] + [line for extra in EXTRAS.values() for line in extra]
NOT_OURS = {"course-lib", "pip", "setuptools"}  # the project itself, and what venv brings along


def locked(lock: str = "requirements.lock") -> dict[str, set[str]]:
    """Name -> the lock's requirements for it; a few have one for each range of Python versions."""
    lines = (ROOT / lock).read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    names: dict[str, set[str]] = {}
    for requirement in requirements:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), f"not exact: {requirement}"
        if requirement.marker is None or requirement.marker.evaluate():
            names.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier)[2:])
    return names


LOCKED = locked()


def differences_from_lock(versions: dict[str, str]) -> dict[str, str]:
    """Those of the installed packages that the lock does not name in this version."""
    installed = {canonicalize_name(name): version.split("+")[0] for name, version in versions.items()}
    return {n: v for n, v in installed.items() if n not in NOT_OURS and LOCKED.get(n) != {v}}


def environment_yml() -> dict:
    return yaml.safe_load((ROOT / "environment.yml").read_text())


def pip_part() -> list[str]:
    """The lines that conda hands to pip."""
    return next(entry["pip"] for entry in environment_yml()["dependencies"] if isinstance(entry, dict))


@pytest.mark.parametrize("line", DIRECT)
def test_each_direct_dependency_is_exact_and_locked(line):
    name, version = line.split("==")
    assert LOCKED[canonicalize_name(name)] == {version}


def test_torch_is_locked_without_a_build():
    assert "torch==2.13.0" in (ROOT / "requirements.lock").read_text().splitlines()


@pytest.mark.parametrize("line", SITE)
def test_what_the_site_is_built_with_is_locked(line):
    """In one version, which is named unless it is the learners'."""
    name, _, version = line.partition("==")
    assert locked("tools/site/requirements.lock")[name] == ({version} if version else LOCKED[name])


def test_the_site_is_built_with_the_learners_versions_where_they_have_one():
    site = locked("tools/site/requirements.lock")
    assert len(site.keys() & LOCKED.keys()) > 30
    assert {name for name in site.keys() & LOCKED.keys() if site[name] != LOCKED[name]} == set()
    assert "torch" not in site


@pytest.mark.parametrize("line", [*DIRECT, *SITE])
def test_each_direct_dependency_says_why_it_is_there(line):
    assert re.search(rf'^\s+"{re.escape(line)}",\s+# \S', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


def test_what_is_installed_is_what_is_locked():
    # Not all of sys.path: once imported, setuptools puts packages of its own there.
    found = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
    installed = {each.name: each.version for each in found}
    assert len(installed) > len(DIRECT) and differences_from_lock(installed) == {}


def test_environment_yml_names_no_versions_but_pythons():
    python, pip, _ = environment_yml()["dependencies"]
    assert pip == "pip"
    assert python.removeprefix("python=") in SpecifierSet(PROJECT["requires-python"])
    assert pip_part() == ["-c requirements.lock", "-e ."]


def test_the_supported_pythons_are_the_same_everywhere():
    oldest, too_new = environment.OLDEST, environment.TOO_NEW
    text = f">={oldest[0]}.{oldest[1]},<{too_new[0]}.{too_new[1]}"
    assert PROJECT["requires-python"] == text
    assert f"{oldest} <= sys.version_info[:2] < {too_new}" in (ROOT / "Makefile").read_text()
    assert doctor.PYTHON_MINORS == range(oldest[1], too_new[1])


def test_the_version_is_the_same_everywhere():
    assert PROJECT["version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
