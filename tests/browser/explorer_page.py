"""A notebook with one explorer, as it is seen: its picture, its controls, and the numbers beside it."""

import re

import nbformat
from nbformat import v4

from tools.clean_notebooks import KERNEL


def write_notebook(folder, name, code):
    notebook = v4.new_notebook(cells=[v4.new_code_cell(code)], metadata={"kernelspec": KERNEL})
    nbformat.write(notebook, folder / f"{name}.ipynb")


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
