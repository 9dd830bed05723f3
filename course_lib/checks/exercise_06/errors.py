"""What an answer looks like that raised an error or came to a stop."""

from __future__ import annotations

from course_lib.checks import mistakes
from course_lib.checks.part import Attempt
from course_lib.checks.playing import case_reached, is_hang

OTHER_ORDER = "layers in another order on each rank"  # begins a case's title
OUT_OF_TURN = (
    "Buckets start in the order in which they are full. On another rank that may be another one, and then "
    "one rank's first all-reduce meets another's second. A bucket that is full before its turn has to wait "
    "for those before it."
)
_OTHER_PLACE = (
    "A gradient does not fit into the place in the row that it is given. Has each hook its own? All "
    "functions that a loop makes see the *last* value of its names, but for default arguments, as in "
    "`view=view`."
)
_SENTENCES = {
    "cannot register a hook on a tensor that doesn't require gradient": (
        "A frozen parameter, whose `requires_grad` is False, gets no gradient: it needs no hook, and no "
        "place in a bucket."
    ),
    "KeyError: Parameter containing": (
        "`firings` has the trained parameters only: a frozen one has no hook that could fire."
    ),
    "The size of tensor a": _OTHER_PLACE,
    "doesn't match the broadcast shape": _OTHER_PLACE,
    "NoneType": (
        "Something is None that is used like a tensor. `.grad` is None before the first gradient and after "
        "`zero_grad`, and stays it where a parameter is frozen. A hook of `register_hook` finds it None, "
        "too: it runs before the gradient is put there."
    ),
}


def in_error(attempt: Attempt) -> str | None:
    """The sentence for a run that did not end well."""
    text, reached = str(attempt.error), case_reached(attempt)
    in_other_order = reached is not None and reached.title.startswith(OTHER_ORDER)
    if in_other_order and (is_hang(attempt) or "do not fit" in text or "mismatch" in text.lower()):
        return OUT_OF_TURN
    if is_hang(attempt) and "did not get to what" in text:
        return "Some ranks wait for a sum to which others do not come: every rank has to take part in it."
    own = next((sentence for sign, sentence in _SENTENCES.items() if sign in text), None)
    return own or mistakes.in_error(attempt)
