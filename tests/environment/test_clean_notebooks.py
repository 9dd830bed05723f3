"""Committed notebooks keep their outputs and hold no noise."""

import nbformat
import pytest
from nbformat import v4

from tests.environment.repository import ROOT, tracked_files
from tools.clean_notebooks import WIDGET_VIEW, clean, main, problems, refusals


def notebook_with(output, metadata=None):
    cell = v4.new_code_cell("cell", outputs=[output], metadata=metadata or {})
    return v4.new_notebook(cells=[cell])


def stream(text):
    return v4.new_output("stream", name="stdout", text=text)


def test_committed_notebooks_are_clean():
    notebooks = tracked_files("*.ipynb")
    assert notebooks
    assert [text for path in notebooks for text in problems(ROOT / path, rewrite=False)] == []


def test_times_and_widget_state_go_and_outputs_stay():
    data = {"text/plain": "slider", WIDGET_VIEW: {"model_id": "1f"}}
    notebook = notebook_with(v4.new_output("display_data", data=data), {"execution": {"started": "now"}})
    notebook.metadata["widgets"] = {"state": {}}
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.7"}
    clean(notebook)
    assert notebook.cells[0].metadata == {}
    assert notebook.cells[0].outputs[0].data == {"text/plain": "slider"}
    assert "widgets" not in notebook.metadata and notebook.metadata.language_info == {"name": "python"}


def test_other_metadata_stays():
    notebook = notebook_with(stream("3\n"), {"tags": ["raises-exception"], "nbgrader": {"grade": True}})
    clean(notebook)
    assert notebook.cells[0].metadata == {"tags": ["raises-exception"], "nbgrader": {"grade": True}}
    assert notebook.cells[0].outputs[0].text == "3\n"


def test_pieces_of_one_stream_are_joined():
    notebook = notebook_with(stream("1\n"))
    value = v4.new_output("execute_result", data={"text/plain": "4"}, execution_count=1)
    notebook.cells[0].outputs += [stream("2\n"), value, stream("3\n")]
    clean(notebook)
    assert [output.get("text") for output in notebook.cells[0].outputs] == ["1\n2\n", None, "3\n"]


NOISE = [
    "/home/ada/course/x.py",
    "/Users/ada/course/x.py",
    r"C:\Users\ada\x.py",
    "/tmp/ipykernel_7/1.py",
    "<Figure object at 0x7f12ab34cd>",
]


@pytest.mark.parametrize("text", NOISE)
def test_what_only_the_author_can_mend_is_refused(text):
    shown = v4.new_output("display_data", data={"text/html": text})
    raised = v4.new_output("error", ename="E", evalue="", traceback=[text])
    for output in (stream(text), shown, raised):
        assert len(list(refusals(notebook_with(output)))) == 1


def test_plain_text_and_pictures_are_not_refused():
    picture = v4.new_output("display_data", data={"image/png": "/tmp/+/home/base64"})
    assert list(refusals(notebook_with(picture))) == []
    assert list(refusals(notebook_with(stream("1/2 of 0x10 tmp /rank")))) == []


def test_the_tool_checks_then_rewrites_then_is_content(tmp_path, monkeypatch):
    def run_tool(*arguments):
        monkeypatch.setattr("sys.argv", ["clean_notebooks.py", *map(str, arguments)])
        return main()

    path = tmp_path / "lesson.ipynb"
    nbformat.write(notebook_with(stream("3\n"), {"execution": {}}), path)
    before = path.read_bytes()
    assert run_tool("--check", path) == 1
    assert path.read_bytes() == before
    assert run_tool(path) == 1  # a hook must stop the commit that it changed
    assert run_tool(path) == 0
    assert run_tool("--check", path) == 0
    assert b'"3\\n"' in path.read_bytes()
