"""One sentence for several formulas: a mistake can be made in more than one way."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks.mistakes import AsIf


def as_if(sentence: str, *formulas: Callable) -> list[AsIf]:
    """Recognizers of what comes out when one of these is computed."""
    return [AsIf(formula, sentence) for formula in formulas]
