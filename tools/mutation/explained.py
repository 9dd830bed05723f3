"""Why survivors survive: reasons for mutants that agree with the solution, or that a check lets pass."""

from __future__ import annotations

import re
from collections.abc import Sequence

# The answer's cell, a pattern for "before => after", the reason.  The first that fits is taken.
_REASONS: Sequence[tuple[str, str, str]] = ()


def reason(answer: str, before: str, after: str) -> str:
    """Why this mutant is no mistake; "" if nobody has said."""
    change = f"{before} => {after}"
    return next((why for cell, pattern, why in _REASONS
                 if cell in (answer, "") and re.search(pattern, change)), "")  # fmt: skip
