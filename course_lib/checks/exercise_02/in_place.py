"""What a learner reads of functions that work in place, on one tensor or several, where it goes wrong."""

from __future__ import annotations

from math import isclose

from course_lib.checks import in_place
from course_lib.checks.in_place import NEAR, given, given_back, given_expected, is_unchanged
from course_lib.checks.part import Compared
from course_lib.checks.values import agree, texts

returned = in_place.returned(
    "The right result is returned, and what was given is as before: it is to be changed in place, since the "
    "module's own tensors must hold the result."
)
not_written_back = in_place.not_written_back(
    "The tensor is as before. Its numbers do not lie in one piece, so `contiguous` and `reshape` give a "
    "copy: what is in the copy at the end has to be put back with `copy_`."
)


def unchanged(wrong: Compared) -> str | None:
    """Seen only with several ranks."""
    if not is_unchanged(wrong):
        return None
    if not any(played.messages or played.collectives for played in wrong.played):
        return "No message was sent, and what was given is as before."
    return (
        "What was given is as before. `tensor = …` gives the name to another tensor and leaves the old one "
        "as it was; `copy_`, `+=` and `recv` put numbers into it."
    )


def reads_memory(wrong: Compared) -> str | None:
    """Seen where the cases before, of tensors in one piece, are right."""
    if any(tensor.layout != "contiguous" for tensor in given(wrong, 0)):
        return (
            "Only a tensor whose numbers do not lie in one piece is wrong: torch.distributed takes one block "
            "of memory. Send and receive a `contiguous` copy, and put the result back with `copy_`."
        )
    return None


def digits_lost(wrong: Compared) -> str | None:
    pairs = [pair for rank in wrong.wrong_ranks for pair in in_place.numbers(wrong, rank)]
    if pairs and all(isclose(*pair, rel_tol=NEAR, abs_tol=NEAR) for pair in pairs):
        return "The numbers are near, but digits are lost: stay with the tensor's own dtype on all the way."
    return None


def first_difference(wrong: Compared, rank: int) -> tuple[str, str] | None:
    """For ``in_words``: of several tensors, or of a tensor and a number, the first tensor that is wrong."""
    if wrong.case.secret:
        return None
    got, expected = (in_place.several(find(wrong, rank)) for find in (given_back, given_expected))
    tolerance = wrong.case.tolerance
    for number, (right, left) in enumerate(zip(expected, got, strict=True), start=1):
        if not agree(left, right, tolerance):
            which = f"tensor {number} of {len(got)}: " if len(got) > 1 else ""
            of_right, of_left = texts(right, left, tolerance)
            return which + of_right, which + of_left
    return None
