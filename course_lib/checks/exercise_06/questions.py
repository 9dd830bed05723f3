"""A part that asks questions: the learner's function returns a dict with an answer to each.

Each question is a case.  Answers are never shown; beside a wrong one stands what speaks against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_lib.checks import mistakes, values
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part, Recognizer

_NO_DICT, _NO_ANSWER = "no dict", "no answer"


def part(example: str, titles: Mapping[str, str], right: Mapping[str, Any],
         against: Sequence[Recognizer]) -> Part:  # fmt: skip
    """The first of ``against`` that recognizes a wrong answer is heard."""
    return Part(
        example,
        lambda _: [Case.alone(titles[key], (key,), right[key], secret=True) for key in titles],
        recognize_error=mistakes.in_error,
        world_sizes=ONE_PROCESS,
        in_words=partial(_in_words, [_none_given, *against]),
    )


def asking(function: Any) -> Any:
    """A function that gives the learner's answer to one question; what is no function stays it."""
    return partial(_answer, function) if callable(function) else function


def _answer(function: Callable, key: str) -> Any:
    answers = function()
    given = answers.get(key, _NO_ANSWER) if isinstance(answers, dict) else _NO_DICT
    return int(given) if isinstance(given, float) and given.is_integer() else given


def _none_given(wrong: Compared) -> str | None:
    if wrong.got(0) == _NO_DICT:
        return "a dict is expected, with the keys that are there: keep the line with `return` as it was"
    if wrong.got(0) == _NO_ANSWER:
        return "keep all the keys of the dict as they were"
    return "put your answer in its place" if wrong.got(0) is None else None


def _in_words(against: Sequence[Recognizer], wrong: Compared, rank: int) -> tuple[str, str]:
    sentence = next(filter(None, (recognize(wrong) for recognize in against)), None)
    got = values.text(wrong.got(0))
    return "(not shown: find it)", f"{got}: {sentence}" if sentence else got
