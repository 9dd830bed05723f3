"""What a run of part 1 or 2 looks like that raised an error or came to a stop."""

from __future__ import annotations

from course_lib.checks.exercise_05 import errors
from course_lib.checks.part import Attempt

_SENTENCES = {
    "with tensors or settings that do not fit together": (
        "Some ranks call `all_reduce` for something else than others do. All of them have to call it equally "
        "often, in the same order, and with tensors of the same shape and dtype."
    ),
    "NoSuchStep: batch_of(": (
        "There is no batch for such a step: `steps` has the numbers of the steps, and `batch_of` and "
        "`learning_rate` want them as they are."
    ),
    "NoSuchStep: train_step(": (
        "There is no such step in this run: the first one's number is 1, and the last one's is `last`."
    ),
}


def in_error(attempt: Attempt) -> str | None:
    """The sentence for a run that did not end well."""
    text = str(attempt.error)
    own = next((sentence for sign, sentence in _SENTENCES.items() if sign in text), None)
    return own or errors.in_error(attempt)
