"""A notebook with one explorer, as it is seen: its picture, its controls, and the numbers beside it."""

import contextlib
import re

import nbformat
from nbformat import v4

from tools.clean_notebooks import KERNEL
from tools.lab_browser import open_notebook

NARROW = 900  # pixels


def write_notebook(folder, name, code):
    notebook = v4.new_notebook(cells=[v4.new_code_cell(code)], metadata={"kernelspec": KERNEL})
    nbformat.write(notebook, folder / f"{name}.ipynb")


@contextlib.contextmanager
def open_narrow(browser, server, keep_pictures, name):
    """The notebook of an explorer, run, in a narrow window; its pictures are kept at the end."""
    with open_notebook(browser, server, f"{name}.ipynb", width=NARROW) as opened:
        opened.run_all()
        picture(opened).wait_for()
        opened.name = name
        yield opened
        keep_pictures(opened, name)


def assert_fits(opened):
    """Picture and numbers fit a narrow window."""
    assert picture(opened).evaluate("image => image.naturalWidth") == 740
    for part in (picture(opened), opened.page.locator(".widget-html table")):
        box = part.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= NARROW


def picture(opened):
    return opened.page.locator(".jp-OutputArea-output img")


def control(opened, description):
    """The slider's handle or the menu beside a description that begins so."""
    row = opened.page.locator(".widget-inline-hbox").filter(has_text=re.compile(f"^{description}"))
    return row.locator(".noUi-handle, select").first


def shown_rows(opened):
    """The readout's table as it is seen: the texts of each row."""
    rows = opened.page.locator(".widget-html table tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def reached_by_tab(opened, first, presses):
    """The descriptions of the controls that the tab key reaches from the first one on, each once."""
    control(opened, first).focus()
    reached = {}
    for _ in range(presses):  # some have a second place that takes the focus
        reached[opened.page.evaluate(LABEL_IN_FOCUS)] = True
        opened.page.keyboard.press("Tab")
    return list(reached)


LABEL_IN_FOCUS = "document.activeElement.closest('.widget-inline-hbox')?.querySelector('label')?.innerText"
