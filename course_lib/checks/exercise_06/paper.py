"""Part 1: which bucket starts first, how many all-reduces there are, and what they send: on paper."""

from __future__ import annotations

from typing import Any

from course_lib.checks.exercise_06 import questions
from course_lib.checks.mistakes import AsIf
from course_lib.checks.part import Compared

# The model of the exercise's text, in fp32: names and bytes in the order of ``model.parameters()``.
MODEL = {
    "embedding": 16_000,
    "norm.weight": 320,
    "norm.bias": 320,
    "hidden.weight": 25_600,
    "hidden.bias": 320,
    "output.weight": 24_000,
    "output.bias": 300,
}
BUCKET_BYTES = 24_320
RANKS, MICRO_BATCHES = 4, 8

_BYTES_SENT = 100_290  # 2·(4 − 1)/4 of 66,860
ANSWERS = {
    "first_bucket": ("output.bias", "output.weight", "hidden.bias"),
    "starts_it": "hidden.bias",
    "all_reduces": 3,
    "cannot_hide": ("norm.bias", "norm.weight", "embedding"),
    "bytes_sent": _BYTES_SENT,
}
_QUESTIONS = {
    "first_bucket": "the parameters in the first bucket",
    "starts_it": "the parameter whose gradient lets it start",
    "all_reduces": "all-reduces in a step",
    "cannot_hide": "the parameters whose all-reduce has nothing to hide behind",
    "bytes_sent": "bytes that each rank sends in a step",
}
_ALL = sum(MODEL.values())


# --- What mistakes look like ---


def _other_form(wrong: Compared) -> str | None:
    got, expected = wrong.got(0), wrong.expected(0)
    names = got if isinstance(got, tuple) else (got,)
    if isinstance(expected, int):
        return None if type(got) in (int, float) else "This is to be a number."
    if isinstance(expected, tuple) and not isinstance(got, tuple):
        return "This is to be a list of names."
    if isinstance(expected, str) and isinstance(got, tuple):
        return "This is to be one name."
    if unknown := [name for name in names if not isinstance(name, str) or name not in MODEL]:
        return f"No parameter is called {str(unknown[0])[:40]!r}: copy the names from the table."
    return None


def _as(sentence: str, **answers: Any) -> list[AsIf]:
    """Recognizes these answers to these questions."""
    return [
        AsIf(
            lambda question, asked=asked, given=given: given if question == asked else ANSWERS[question],
            sentence, case_by_case=True,
        )
        for asked, given in answers.items()
    ]  # fmt: skip


def _rearranged(wrong: Compared) -> str | None:
    got, expected = wrong.got(0), wrong.expected(0)
    if isinstance(expected, tuple) and sorted(got) == sorted(expected):
        return "These are the right ones, in another order: the gradient that comes first is to be first."
    return None


def _from_the_front(wrong: Compared) -> str | None:
    (question,), got = wrong.case.arguments[0], wrong.got(0)
    first = got[:1] if question == "first_bucket" else (got,) if question == "starts_it" else ()
    if set(first) & {"embedding", "norm.weight", "norm.bias"}:
        return (
            "What comes first in the forward pass comes last here. The backward pass begins at the loss, so "
            "it reaches the last layers first."
        )
    return None


ON_PAPER = questions.part(
    "on_paper()",
    _QUESTIONS,
    ANSWERS,
    (
        _other_form,
        _rearranged,
        _from_the_front,
        *_as(
            "24,000 + 300 bytes are 24,300, and that is not yet the bucket's size: a bucket closes when it "
            "has *reached* it.",
            first_bucket=("output.bias", "output.weight"),
            starts_it="output.weight",
        ),
        *_as(
            "Begin with the gradient that comes first, and add up: the bucket has reached its size before "
            "`hidden.weight`.",
            first_bucket=("output.bias", "output.weight", "hidden.bias", "hidden.weight"),
            starts_it="hidden.weight",
        ),
        *_as(
            "A bucket leaves when the *last* gradient of it has come, not the first.",
            starts_it="output.bias",
            cannot_hide=("embedding",),
        ),
        *_as("This is one for each parameter: the gradients of a bucket travel together.", all_reduces=7),
        *_as(
            "So many come out if no bucket may become larger than its size. The rule is another one: it "
            "takes parameters *until it has reached* its size, and the last one may go beyond it.",
            all_reduces=4,
        ),
        *_as(
            "Reduce-scatter and all-gather are the two halves of one all-reduce.", all_reduces=3 * 2
        ),
        *_as(
            "All ranks take part in the same all-reduce: it is one, and not one for each of them.",
            all_reduces=3 * RANKS,
        ),
        *_as(
            "Gradients add up on the rank while micro-batches come. They go over the network once in a step, "
            "when the last one's are in them.",
            all_reduces=3 * MICRO_BATCHES,
            bytes_sent=_BYTES_SENT * MICRO_BATCHES,
        ),
        *_as(
            "A bucket that is not full at the end has gradients, too, and nobody else will send them.",
            all_reduces=2,
            cannot_hide=("hidden.weight",),
        ),
        *_as(
            "The gradient of `hidden.weight` fills a bucket, and when that one starts, the gradients of "
            "other parameters are still to be computed: it hides behind them.",
            cannot_hide=("hidden.weight", "norm.bias", "norm.weight", "embedding"),
        ),
        *_as(
            "This is twice all bytes, and a rank sends less: in each half of the ring it sends N−1 of the N "
            "parts, and not all of them.",
            bytes_sent=2 * _ALL,
        ),
        *_as(
            "This is 2(N−1)/N with the number of micro-batches in place of the ranks.",
            bytes_sent=2 * (MICRO_BATCHES - 1) * _ALL / MICRO_BATCHES,
        ),
        *_as(
            "So much would go out if each rank sent all of its gradients to each of the others. In the ring "
            "a message is one part of N.",
            bytes_sent=(RANKS - 1) * _ALL,
        ),
        *_as(
            "These are elements, and bytes are asked for: fp32 has four for each.",
            bytes_sent=_BYTES_SENT / 4,
        ),
        *_as(
            "All parameters together have so many bytes, and the ring sends more than that: 2(N−1)/N of it "
            "from each rank (lesson 04).",
            bytes_sent=_ALL,
        ),
        *_as(
            "This is one half of the ring: after the reduce-scatter comes the all-gather, which sends as "
            "much again.",
            bytes_sent=_ALL * 3 // 4,
        ),
        *_as(
            "This is what all ranks send together, and the question is about one of them.",
            bytes_sent=_BYTES_SENT * RANKS,
        ),
    ),
)
