"""What a ring looks like that raised an error or came to a stop."""

from __future__ import annotations

from course_lib.checks import mistakes
from course_lib.checks.part import Attempt
from course_lib.checks.playing import is_hang
from course_lib.ranks.errors import states_of

_NO_DIMENSION = "A tensor without dimensions can't be cut: make a row of it first, by `reshape(-1)`."
_NOT_EQUAL = (
    "The elements can't always be cut into N equal pieces: `tensor_split` cuts any row into N, some of "
    "them longer by one element."
)
_SENTENCES = {
    "The ranks did not end within": (
        "This does not end in time: either it never ends, or it sends far more messages than one for each "
        "chunk and step."
    ),
    "offset < this->size": "A receive does not say from whom. NCCL has no such receive: name the rank.",
    "'tuple' object does not support item assignment": (
        "`chunks[i] += …` adds, and then also puts the result into `chunks[i]`, which a tuple refuses: "
        "`chunks[i].add_(…)` only adds."
    ),
    "index out of range": (
        "There is no chunk of that number: either the index does not go around the ring, or there are too "
        "few chunks, since `torch.chunk` gives fewer where they do not come out even."
    ),
    "split_size can only be 0": (
        "Some chunks have no elements: there may be fewer elements than ranks. `tensor_split` cuts such a "
        "row, too."
    ),
    "is invalid for input of size": _NOT_EQUAL,
    "expects each tensor to be equal size": _NOT_EQUAL,
    "expected at least a 1-dimensional tensor": _NO_DIMENSION,
    "expects at least a 1-dimensional tensor": _NO_DIMENSION,
    "to a 0-dim tensor": _NO_DIMENSION,
    "of a 0-d tensor": _NO_DIMENSION,
    "view size is not compatible": (
        "This tensor's numbers do not lie in one piece, so there is no view of them as a row: it takes a "
        "copy, which has to be written back."
    ),
    "can't be cast to the desired output type": (
        "An integer tensor can't hold a mean. The sum is asked for: whoever wants the mean divides it."
    ),
    "must match the size of tensor": (
        "What has arrived is not as long as the chunk to which it is added: a rank receives the chunk that "
        "its neighbor sends in that step, and chunks may differ by one element."
    ),
}


_NO_EMPTY_BATCH = "`batch_isend_irecv` takes no empty list: where there is nothing to send, leave it out."
_NOBODY_SENDS = (
    "Deadlock: every rank waits for a message that nobody sends it. Who sends to the right receives from "
    "the left, and no rank may wait for what it receives before it has posted what it sends."
)


def in_error(attempt: Attempt) -> str | None:
    """The sentence for a run that did not end well."""
    text = str(attempt.error)
    if "list index out of range" in text and "batch_isend_irecv(" in text and "inside libraries" in text:
        return _NO_EMPTY_BATCH
    doing = [state.doing for state in states_of(attempt.error)] if is_hang(attempt) else []
    if doing and all(each.startswith("waits in recv") for each in doing):
        return _NOBODY_SENDS
    own = next((sentence for sign, sentence in _SENTENCES.items() if sign in text), None)
    return own or mistakes.in_error(attempt)
