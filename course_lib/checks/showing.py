"""Shows what a learner's ring left on each rank: a picture in a notebook, a table in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib import ring_table
from course_lib.checks.judging import Judgement
from course_lib.checks.part import Part
from course_lib.ranks.display import in_notebook

_RANKS_IF_RIGHT = 4


def show(part: Part, judgements: Sequence[Judgement]) -> None:
    """What was left in the first wrong run that has a picture, or a right one if all are right."""
    if part.draw_left is None:
        return
    for judgement in sorted(judgements, key=_comes_first):
        states = (part.draw_left(compared) for compared in judgement.cases)
        state = next((state for state in states if state is not None), None)
        if state is not None and judgement.ranks > 1:
            return _show(state, judgement.ranks)


def _comes_first(judgement: Judgement) -> tuple[bool, bool, int]:
    return judgement.right, judgement.ranks != _RANKS_IF_RIGHT and judgement.right, judgement.ranks


def _show(state: ring_table.State, ranks: int) -> None:
    title = f"What was left on each of {ranks} ranks"
    if not in_notebook():
        return print(f"\n{title}:\n{ring_table.text(state)}")
    from IPython.display import display

    display(ring_table.picture(state, title))
