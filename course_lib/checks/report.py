"""What a learner reads after a check: run by run, and the one mistake that explains most of it.

It is made of the judgements of ``judging`` and of what the part's recognizers say of them.  ``checking``
prints it, and the marker of a class asks for the mistake alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from course_lib.checks.judging import Judgement, is_right_alone
from course_lib.checks.mistakes import AsIf
from course_lib.checks.part import Compared, Part, Recognizer
from course_lib.checks.playing import limits_of

_SHOWN_IN_FULL = 2  # wrong runs
ALWAYS_THE_SAME = "The same is returned in all cases: compute it from what is given."
_FEW = 4  # cases: of fewer it says little that they have something in common


def report(part: Part, judgements: Sequence[Judgement]) -> str:
    """What was found, run by run, and the mistake that explains most."""
    lines = [f"{part.example} (a run without progress is ended after {limits_of(part).without_progress:g} s)"]
    counted = "cases" if part.one_process else "world sizes"
    wrong = [judgement for judgement in judgements if not judgement.right]
    for judgement in judgements:
        first, *rest = judgement.seen
        name = "  " if part.one_process else f"  N={judgement.ranks}  "
        lines.append(f"{name}{'right' if judgement.right else 'WRONG'}  {first}")
        if judgement in wrong[:_SHOWN_IN_FULL]:
            indent = " " * len(f"{name}WRONG  ")
            lines += [f"{indent}{line}".rstrip() for line in rest]
    mistake = main_mistake(part, judgements)
    right = len(judgements) - len(wrong)
    summary = f"{right} of {len(judgements)} {counted} are right."
    if is_right_alone(part, judgements):
        summary += " N = 1 alone earns nothing: one rank sends no message."
    return "\n".join([*lines, "", *([mistake, ""] if mistake else []), summary])


def main_mistake(part: Part, judgements: Sequence[Judgement]) -> str | None:
    """The mistake that explains most, with the world sizes or the kind of case where they tell more."""
    explanation = _explanation(part, judgements)
    pattern = _cases_pattern(judgements) if part.one_process else _sizes_pattern(judgements)
    if part.one_process and not explanation and not pattern:
        return _habit(judgements)
    return " ".join(filter(None, (explanation, pattern))) or None


def _explanation(part: Part, judgements: Sequence[Judgement]) -> str | None:
    """The mistake that was recognized most often, if it is likely: one wrong number can fit many mistakes.

    It must explain half of the wrong runs, and of several cases the first one, which stands above it in full.
    A formula must explain half of the runs that it would make
    wrong, too, since a learner who had computed it would not be right there.
    """
    wrong = [judgement for judgement in judgements if not judgement.right and not judgement.skipped]
    heard = Counter(mistake for judgement in wrong for mistake in _heard(part.recognizers, judgement))
    for mistake, explained in heard.most_common():
        speaking_against = sum(_contradicts(judgement, mistake) for judgement in judgements)
        explains_what_is_shown = not part.one_process or mistake in _heard(part.recognizers, wrong[0])
        if explains_what_is_shown and 2 * explained >= len(wrong) + speaking_against:
            return mistake.sentence if isinstance(mistake, AsIf) else mistake
    return None


def _heard(recognizers: Sequence[Recognizer], judgement: Judgement) -> list[str | AsIf]:
    """The first sentence that fits the first wrong case, and of the formulas before it all that fit.

    A formula must fit half of the run's cases, too, that are wrong or that it would make wrong.
    """
    if judgement.mistake or not judgement.wrong_case:
        return [judgement.mistake] if judgement.mistake else []
    heard: list[str | AsIf] = []
    for recognize in recognizers:
        sentence = recognize(judgement.wrong_case)
        if isinstance(recognize, AsIf):
            heard += [recognize] if sentence and _fits_half(recognize, judgement.cases) else []
        elif sentence:
            return [*heard, sentence]
    return heard


def _fits_half(formula: AsIf, cases: Sequence[Compared]) -> bool:
    wrong = [compared for compared in cases if compared.wrong_ranks]
    against = sum(formula.would_be_wrong_in(compared) for compared in cases if not compared.wrong_ranks)
    return 2 * sum(formula(compared) is not None for compared in wrong) >= len(wrong) + against


def _contradicts(judgement: Judgement, mistake: str | AsIf) -> bool:
    if not judgement.right or not isinstance(mistake, AsIf):
        return False
    return any(mistake.would_be_wrong_in(compared) for compared in judgement.cases)


def _cases_pattern(judgements: Sequence[Judgement]) -> str | None:
    """Seen where a table of the answers that were printed is returned."""
    wrong = [judgement for judgement in judgements if not judgement.right]
    if wrong and len(wrong) < len(judgements) and wrong == [one for one in judgements if one.secret]:
        return (
            "Only the case whose answer is not shown is wrong: compute what is returned from what is given, "
            "whatever that is."
        )
    return None


def _habit(judgements: Sequence[Judgement]) -> str | None:
    """What can be said where no mistake is recognized in the numbers."""
    cases = [judgement.cases[0] for judgement in judgements if judgement.cases]
    are_questions = all(judgement.secret for judgement in judgements)
    if are_questions or len(cases) < max(_FEW, len(judgements)):
        return None
    if all(compared.got(0) == cases[0].got(0) for compared in cases):
        return ALWAYS_THE_SAME
    if sum(judgement.right for judgement in judgements) == 1:
        return "Only one case is right, as if this had been written for that one. What holds for all of them?"
    return None


def _sizes_pattern(judgements: Sequence[Judgement]) -> str | None:
    wrong = [judgement.ranks for judgement in judgements if not judgement.right and not judgement.skipped]
    right = [judgement.ranks for judgement in judgements if judgement.right and judgement.ranks > 1]
    odd = [ranks for ranks in (*wrong, *right) if ranks % 2]
    if right and {3, 5} <= set(wrong) and set(odd) == set(wrong):
        return "It works only for an even number of ranks."
    if wrong == [2] and len(right) > 1:
        return "Only two ranks, where both neighbors are the same rank, are wrong."
    if wrong == [1] and right:
        return "Only one rank alone, which is its own neighbor, is wrong."
    return None
