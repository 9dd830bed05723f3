"""Links that open a notebook elsewhere: from one setting, and none while it is not set."""

import pytest

from tests.environment.repository import ROOT
from tools.launch_links import links, repository, with_links

README = "Start\n<!-- launch links: from somewhere -->\nold\n<!-- end of launch links -->\nEnd\n"


def project(folder, urls):
    (folder / "pyproject.toml").write_text(f'[project]\nname = "x"\n{urls}')
    return folder


@pytest.mark.parametrize("ending", ["", "/", ".git"])
def test_the_address_is_projects_repository(tmp_path, ending):
    urls = f'[project.urls]\nRepository = "https://github.com/ada/course{ending}"\n'
    assert repository(project(tmp_path, urls)) == "ada/course"


@pytest.mark.parametrize("urls", ["", '[project.urls]\nHomepage = "https://github.com/ada/course"\n'])
def test_without_it_there_are_no_links(tmp_path, urls):
    assert repository(project(tmp_path, urls)) == ""
    assert links("", "notebooks/00_start_here.ipynb") == ""


@pytest.mark.parametrize("address", ["https://gitlab.com/ada/course", "git@github.com:ada/course", "ada"])
def test_another_kind_of_address_is_refused(tmp_path, address):
    with pytest.raises(ValueError, match=f"{address}.*expected https://github.com/OWNER/NAME"):
        repository(project(tmp_path, f'[project.urls]\nRepository = "{address}"\n'))


def test_each_service_gets_the_notebook():
    text = links("ada/course", "exercises/03_ring_all_reduce.ipynb")
    assert "(https://mybinder.org/v2/gh/ada/course/main?urlpath=lab/tree/exercises/03_ring_all_reduce" in text
    at_github = "ada/course/blob/main/exercises/03_ring_all_reduce.ipynb)"
    assert f"(https://colab.research.google.com/github/{at_github}" in text
    assert f"(https://kaggle.com/kernels/welcome?src=https://github.com/{at_github}" in text


def test_readme_gets_its_links_between_the_comments():
    text = with_links(README, "ada/course")
    assert text.startswith("Start\n<!--") and text.endswith("-->\nEnd\n")
    assert "ada/course" in text and "old" not in text
    assert with_links(text, "") == README.replace("old\n", "")
    with pytest.raises(ValueError, match="no place"):
        with_links("Start\n", "ada/course")


def test_readme_has_the_links_of_the_address_that_is_set():
    readme = (ROOT / "README.md").read_text()
    assert with_links(readme, repository()) == readme
