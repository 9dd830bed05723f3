"""What a step looks like that raised an error or came to a stop."""

from __future__ import annotations

from course_lib.checks import mistakes
from course_lib.checks.part import Attempt
from course_lib.checks.playing import is_hang

_NO_WAY_BACK = (
    "`backward` finds no way back to the weights: it needs the loss as the model has made it, and `item`, "
    "`detach` or a new `torch.tensor` take only its number out."
)
_SENTENCES = {
    "'float' object has no attribute 'backward'": _NO_WAY_BACK,
    "does not require grad and does not have a grad_fn": _NO_WAY_BACK,
    "backward through the graph a second time": (
        "`backward` goes through the same micro-batch a second time: a running sum of losses still has the "
        "earlier ones in it. `.grad` adds up by itself, so each loss needs its own backward only."
    ),
    "'NoneType'": (
        "Something is None that is used like a tensor. A function that works in place returns None, and "
        "`.grad` is None before the first backward and after `zero_grad`."
    ),
}


def in_error(attempt: Attempt) -> str | None:
    """The sentence for a run that did not end well."""
    text = str(attempt.error)
    if is_hang(attempt) and "did not get to what" in text:
        return "Some ranks wait for a sum to which others do not come: every rank has to take part in it."
    own = next((sentence for sign, sentence in _SENTENCES.items() if sign in text), None)
    return own or mistakes.in_error(attempt)
