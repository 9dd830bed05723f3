"""What a ring looks like that raised an error or came to a stop."""

from __future__ import annotations

from course_lib.checks import mistakes
from course_lib.checks.part import Attempt

_SENTENCES = {
    "'tuple' object does not support item assignment": (
        "`chunks[i] += …` adds, and then also puts the result into `chunks[i]`, which a tuple refuses: "
        "`chunks[i].add_(…)` only adds."
    ),
    "index out of range": (
        "There are fewer chunks than ranks: `torch.chunk` gives fewer pieces when they do not come out "
        "even, and `tensor_split` as many as it is asked for, some of them empty if need be."
    ),
    "expected at least a 1-dimensional tensor": (
        "A tensor without dimensions can't be cut into chunks: make a row of it first, by `reshape(-1)`."
    ),
    "expects at least a 1-dimensional tensor": (
        "A tensor without dimensions can't be cut into chunks: make a row of it first, by `reshape(-1)`."
    ),
    "view size is not compatible": (
        "This tensor's numbers do not lie in one piece, so there is no view of them as a row: it takes a "
        "copy, which has to be written back."
    ),
    "can't be cast to the desired output type": (
        "An integer tensor can't hold a mean. The sum is asked for: whoever wants the mean divides it."
    ),
}


def in_error(attempt: Attempt) -> str | None:
    """The sentence for a run that did not end well."""
    text = str(attempt.error)
    own = next((sentence for sign, sentence in _SENTENCES.items() if sign in text), None)
    return own or mistakes.in_error(attempt)
