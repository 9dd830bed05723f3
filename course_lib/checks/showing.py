"""Shows what a learner's ring left on each rank: a picture in a notebook, a table in a terminal.

``checking`` asks for it below the report, and never where somebody marks.  The part reads the state off its
cases (``Part.draw_left``), and ``ring_table`` draws it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

from course_lib import ring_table
from course_lib.checks.judging import Judgement
from course_lib.checks.part import Part
from course_lib.ranks.display import in_notebook

_BEST = 4  # ranks: enough to see a pattern, and few enough to see it at a glance


def show(part: Part, judgements: Sequence[Judgement]) -> None:
    """One picture of a wrong run, where one shows what is wrong; of a right one only if all are right."""
    all_right = all(judgement.right for judgement in judgements)
    left = [
        found
        for judgement in judgements
        for compared in judgement.cases
        if judgement.right == all_right and judgement.wrong_case in (None, compared)
        if (found := part.draw_left(compared)) is not None
    ]
    if not left:
        return
    title, state = min(left, key=lambda one: (len(one[1]) != _BEST, len(one[1])))
    if not in_notebook():
        print(f"\n{title}:\n{ring_table.text(state)}")
        return
    from IPython.display import display

    # On a machine's first picture matplotlib may say that it collects fonts, and a check says nothing there.
    with contextlib.redirect_stderr(io.StringIO()):
        display(ring_table.picture(state, title))
