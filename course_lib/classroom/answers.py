"""Running a learner's answer cells outside of a notebook.

What is wrong with one cell does not stop the next one, as in a notebook.
"""

from __future__ import annotations

import linecache


def run_cell(file: str, text: str, defined: dict) -> Exception | SystemExit | None:
    """Run a cell's text in the namespace ``defined``; what it raised.

    ``file`` is the name that its lines have in tracebacks, with angle brackets: no file has it.
    """
    know_lines(file, text)
    try:
        # Not with this module's own `from __future__`, which a notebook has not.
        exec(compile(text, file, "exec", dont_inherit=True), defined)
    except (Exception, SystemExit) as error:
        return error
    return None


def know_lines(file: str, text: str) -> None:
    """Let tracebacks show a cell's lines."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
