"""What the jail tells the marker, as JSON: nothing that is read here can run code.

A rank writes what its calls came to (``played_to_text``), the jail's first process how a run ended
(``ended_to_plain``).  Both may have been written by a learner's code, so reading checks every form, and
raises BadReply for what has another one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from course_lib import ranks
from course_lib.checks.messages import Message
from course_lib.checks.part import Played
from course_lib.checks.values import PERIOD, Module, Tensor, Unknown, is_large
from course_lib.ranks.errors import states_of

_NUMBERS = (bool, int, float)
_ERRORS = {"failed": ranks.RankFailed, "hung": ranks.RanksHung}
_MOST_CHARACTERS = 1 << 24
_MOST_OF_A_RANK = 1 << 22  # characters; read, they can take twenty times as many bytes, and are kept
_LONGEST_ERROR = 500
_MOST_DIMENSIONS, _LARGEST_DIMENSION = 64, 1 << 40  # else multiplying them could take hours


class BadReply(Exception):
    """A reply that no check writes."""


# --- what a rank's calls came to ---


def played_to_text(played: Sequence[Played]) -> str:
    """All calls of one rank."""
    return json.dumps([_played_to_plain(one) for one in played])


def played_from_text(text: str, calls: int) -> list[Played]:
    """The opposite; raises BadReply."""
    rows = _list(_of_a_rank(text))
    if len(rows) != calls:
        raise BadReply(f"a rank returned {len(rows)} results of {calls} calls")
    try:
        return [_played(row) for row in rows]
    except RecursionError:
        raise BadReply("its values are nested too deep") from None


def _played_to_plain(played: Played) -> dict:
    return {
        "value": _to_plain(played.value),
        "arguments": _to_plain(played.arguments),
        "shares_memory": played.shares_memory,
        "messages": [list(vars(message).values()) for message in played.messages],
        "collectives": list(played.collectives),
        "moved": played.moved,
        "collective_bytes": list(played.collective_bytes),
    }


def _played(data: Any) -> Played:
    return Played(
        _value(_item(data, "value")),
        _typed(_value(_item(data, "arguments")), tuple),
        _text(_item(data, "shares_memory")),
        tuple(map(_message, _list(_item(data, "messages")))),
        tuple(map(_text, _list(_item(data, "collectives")))),
        _typed(_item(data, "moved"), bool),
        tuple(_typed(size, int) for size in _list(_item(data, "collective_bytes"))),
    )


def _message(fields: Any) -> Message:
    if len(_list(fields)) != 7:
        raise BadReply(f"a message of {len(fields)} fields")
    kind, peer, tag, batch, waited, size, fault = fields
    return Message(
        _text(kind), _optional(peer), _typed(tag, int), _optional(batch), _optional(waited),
        _typed(size, int), _text(fault),
    )  # fmt: skip


def _optional(number: Any) -> int | None:
    return None if number is None else _typed(number, int)


# --- values ---


def _to_plain(value: Any) -> Any:
    """A described value: tuples are lists, and what has a class is a dict of one item, named for it."""
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, Tensor):
        if not all(isinstance(number, _NUMBERS) for number in value.numbers):
            return {"unknown": f"Tensor of {value.dtype}"}  # complex numbers have no JSON
        return {"tensor": [value.dtype, value.shape, value.numbers, value.layout, value.digest]}
    if isinstance(value, Module):
        parts = (value.parameters, sorted(value.frozen), value.buffers)
        return {"module": [_items(parts[0]), parts[1], _items(parts[2])]}
    return {"unknown": value.type_name} if isinstance(value, Unknown) else value


def _items(named: Any) -> dict:
    return {name: _to_plain(value) for name, value in named.items()}


def _value(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(map(_value, data))
    if isinstance(data, dict):
        (kind, content), *more = data.items() or [("", None)]
        if kind not in _READ or more:
            raise BadReply(f"an unknown kind of value, {kind!r:.40}")
        return _READ[kind](content)
    return data  # JSON has nothing else but numbers, text, and None


def _tensor(fields: Any) -> Tensor:
    if len(_list(fields)) != 5:
        raise BadReply("a tensor of other fields")
    dtype, shape, numbers, layout, digest = fields
    sizes = tuple(_typed(size, int) for size in _list(shape))
    if len(sizes) > _MOST_DIMENSIONS or any(not 0 <= size <= _LARGEST_DIMENSION for size in sizes):
        raise BadReply("a tensor of a shape that none has")
    if any(not isinstance(number, _NUMBERS) for number in _list(numbers)):
        raise BadReply("a tensor of something else than numbers")
    expected = PERIOD if is_large(sizes) else math.prod(sizes)
    if len(numbers) != expected:
        raise BadReply(f"a tensor of shape {sizes} with {len(numbers)} numbers")
    return Tensor(_text(dtype), sizes, tuple(numbers), _text(layout), _text(digest))


def _module(fields: Any) -> Module:
    if len(_list(fields)) != 3:
        raise BadReply("a module of other fields")
    parameters, frozen, buffers = fields
    return Module(_named(parameters), frozenset(map(_text, _list(frozen))), _named(buffers))


def _named(data: Any) -> dict:
    return {name: _value(value) for name, value in _typed(data, dict).items()}


_READ: dict[str, Callable[[Any], Any]] = {
    "tensor": _tensor,
    "module": _module,
    "unknown": lambda name: Unknown(_text(name)),
}


# --- how a run ended ---


def ended_to_plain(results: Sequence[str], error: Exception | None, printed: str) -> dict:
    """What ``playing.run`` gave: what ranks returned, as text; the error; what was printed."""
    if error is None:
        return {"results": list(results), "printed": printed}
    kind = next((name for name, known in _ERRORS.items() if isinstance(error, known)), "other")
    states = [list(vars(state).values()) for state in states_of(error)]
    return {"error": kind, "report": str(error), "states": states, "printed": printed}


def _error(data: dict) -> ranks.RanksError | None:
    if "error" not in data:
        return None
    states = [_state(fields) for fields in _list(_item(data, "states"))]
    known = _ERRORS.get(_text(data["error"]), ranks.RanksError)
    return known(_text(_item(data, "report")), states)


def _state(fields: Any) -> ranks.RankState:
    if len(_list(fields)) != 4:
        raise BadReply("the state of a rank has other fields")
    rank, status, doing, line = fields
    return ranks.RankState(_typed(rank, int), _text(status), _text(doing), _text(line))


# --- forms ---


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadReply("it is not JSON") from None


def _of_a_rank(text: str) -> Any:
    if len(text) > _MOST_OF_A_RANK:
        raise BadReply(f"a rank returned {len(text):,} characters")
    return _json(text)


def _item(data: Any, name: str) -> Any:
    if name not in _typed(data, dict):
        raise BadReply(f"{name} is missing")
    return data[name]


def _list(data: Any) -> list:
    return _typed(data, list)


def _text(data: Any) -> str:
    if len(_typed(data, str)) > _MOST_CHARACTERS:
        raise BadReply(f"a text of {len(data):,} characters")
    return data


def _typed(data: Any, kind: type) -> Any:
    if type(data) is not kind:
        raise BadReply(f"expected {kind.__name__}, got {type(data).__name__}")
    return data


# --- replies ---


class Looked(NamedTuple):
    """What answer cells define: errors by cell, what is no function by name, and what is not there."""

    errors: dict[str, str]
    others: dict[str, str]
    missing: tuple[str, ...]


def reply(data: bytes) -> dict:
    """An answer from the jail; raises BadReply for one that says that it could not be made."""
    answer = _typed(_json(data), dict)
    if "spoiled" in answer:
        raise BadReply(f"the files that tell of the run were spoiled ({_text(answer['spoiled'])})")
    return answer


def ended(data: dict) -> tuple[list[str], ranks.RanksError | None, str]:
    """The opposite of ``ended_to_plain``; raises BadReply."""
    error, printed = _error(data), _text(_item(data, "printed"))
    return [] if error else [_text(each) for each in _list(_item(data, "results"))], error, printed


def looked_from_text(text: str, cells: Collection[str], names: Collection[str]) -> Looked:
    """What ``look_in_rank`` has written of these; raises BadReply."""
    data = _of_a_rank(text)
    missing = set(map(_text, _list(_item(data, "missing")))).intersection(names)
    errors, others = _said_of(cells, _item(data, "errors")), _said_of(names, _item(data, "others"))
    return Looked(errors, others, tuple(sorted(missing)))


def _said_of(names: Collection[str], data: Any) -> dict[str, str]:
    """Of others than these names nobody wants to hear: there may be millions."""
    said = _typed(data, dict)
    return {name: _text(said[name])[:_LONGEST_ERROR] for name in names if name in said}
