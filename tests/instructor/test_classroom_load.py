"""A class on one machine, in small: benchmarks/classroom_load.py at 12 learners is the whole of it."""

import nbformat
import pytest

from benchmarks import classroom_load
from benchmarks.classroom_load import Notebook, comparable


def printed(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def test_pieces_of_a_stream_are_one_text_and_pictures_are_left_out():
    picture = nbformat.v4.new_output("display_data", data={"image/png": "x", "text/plain": "a figure"})
    shown = [("stdout", "a\nb\n"), ("text/plain", "a figure")]
    assert comparable([printed("a\n"), printed("b\n"), picture]) == shown


def test_other_text_is_found():
    cells = [nbformat.v4.new_code_cell("f()", id="f", outputs=[printed(text)]) for text in ("right", "wrong")]
    stored, executed = (nbformat.v4.new_notebook(cells=[cell]) for cell in cells)
    done = Notebook("00")
    classroom_load.compare(stored, executed, done)
    assert (done.compared, done.different) == (1, ["f"])
    assert classroom_load.problems([done], [(7, 1)]) == ["lesson 00: other outputs in f", "process 7 is left"]


def test_what_timed_cells_say_is_counted():
    texts = ["measured here.", "This machine was busy: ... recorded on a machine", "cores: 2"]
    tags = {"tags": [classroom_load.MAY_DIFFER]}
    cells = [nbformat.v4.new_code_cell(metadata=tags, outputs=[printed(text)]) for text in texts]
    done = Notebook("03")
    classroom_load.compare(*[nbformat.v4.new_notebook(cells=cells)] * 2, done)
    assert (done.timed, done.said_busy, done.compared) == (2, 1, 0)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_class_gets_through_and_leaves_nothing():
    notebooks, watch = classroom_load.run_class(4, ["00", "03"])
    assert classroom_load.problems(notebooks, watch.left()) == []
    assert len(notebooks) == 8 and all(each.compared > 20 for each in notebooks)
    assert watch.learners_then == 4 and watch.largest > 100 * classroom_load.MIB
