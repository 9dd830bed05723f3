"""What comes out of the jail is read back as it was, and anything else is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import ranks
from course_lib.checks.messages import Message
from course_lib.checks.part import Played
from course_lib.checks.values import Module, Tensor, Unknown
from course_lib.classroom import wire
from course_lib.classroom.wire import BadReply

TENSOR = Tensor("float32", (2, 2), (1.0, -0.0, float("inf"), float("nan")), "transposed")
LARGE = Tensor("int64", (200, 200), tuple(range(1009)), digest="0f")
PLAYED = Played(
    value=(1, 2.0, True, None, "text", TENSOR, (LARGE, Unknown("set"))),
    arguments=(Module({"weight": TENSOR, "tied": "weight"}, frozenset({"weight"}), {"mean": TENSOR}),),
    shares_memory="an argument",
    messages=(Message("send", 3, 0, None, 1, 8, "changed"), Message("recv", None, 0, 2)),
    collectives=("all_reduce",),
    moved=True,
    collective_bytes=(16,),
)


def test_what_was_played_comes_back_equal():
    [back] = wire.played_from_text(wire.played_to_text([PLAYED]), 1)
    assert back == PLAYED
    assert [type(item) for item in back.value] == [type(item) for item in PLAYED.value]
    assert repr(back.value[5].numbers) == repr(TENSOR.numbers)


def test_complex_numbers_are_something_unknown():
    played = Played(Tensor("complex64", (1,), (1j,)), (), "", ())
    [back] = wire.played_from_text(wire.played_to_text([played]), 1)
    assert back.value == Unknown("Tensor of complex64")


@pytest.mark.parametrize("error", [
    None,
    ranks.RankFailed("report", [ranks.RankState(0, "died", "was killed", "line 1")]),
    ranks.RanksHung("report", []),
    ValueError("report"),
])
def test_how_a_run_ended_comes_back(error):
    data = wire.ended_to_plain(["1"] if error is None else [], error, "hello")
    results, back, printed = wire.ended(wire.reply(json.dumps(data).encode()))
    assert printed == "hello"
    if error is None:
        assert (results, back) == (["1"], None)
    else:
        assert (results, str(back), back.states) == ([], "report", getattr(error, "states", []))
        assert type(back) is (type(error) if isinstance(error, ranks.RanksError) else ranks.RanksError)


ROW = json.loads(wire.played_to_text([PLAYED]))[0]


@pytest.mark.parametrize("change", [
    {"value": {"tensor": ["float32", [2], [1, "x"], "", ""]}},
    {"value": {"tensor": ["float32", [2], [1.0, 2.0, 3.0], "", ""]}},
    {"value": {"tensor": ["float32", [-1, -2], [1.0, 2.0], "", ""]}},
    {"value": {"tensor": ["float32", [10**6, 10**6], [1.0], "", ""]}},
    {"value": {"tensor": ["float32", [2.0], [1.0, 2.0], "", ""]}},
    {"value": {"tensor": []}},
    {"value": {"harm": 1}},
    {"value": {"unknown": 1}},
    {"value": {"unknown": "a", "tensor": 1}},
    {"value": {}},
    {"value": {"module": [{"weight": {"harm": 1}}, [], {}]}},
    {"arguments": "text"},
    {"messages": [["send", "0", 0, None, 1, 8, ""]]},
    {"messages": [["send"]]},
    {"messages": {}},
    {"moved": 1},
    {"collectives": [1]},
    {"collective_bytes": [1.5]},
    {"shares_memory": None},
])  # fmt: skip
def test_another_form_is_refused(change):
    with pytest.raises(BadReply):
        wire.played_from_text(json.dumps([{**ROW, **change}]), 1)


@pytest.mark.parametrize("text", ["", "no JSON", "{}", "[]", "[1]", "[[[" * 10_000, '{"a": 1}', "null"])
def test_what_is_no_list_of_results_is_refused(text):
    with pytest.raises(BadReply):
        wire.played_from_text(text, 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["tensor", "module", "unknown", "results", "error", "states", "printed", "spoiled"])
        | st.text(max_size=3), inner, max_size=3),
)  # fmt: skip


@given(json_values)
def test_any_other_json_is_read_or_refused_and_nothing_else(data):
    text = json.dumps(data)
    for read in (
        lambda: wire.played_from_text(text, 1),
        lambda: wire.played_from_text(json.dumps([{**ROW, "value": data}]), 1),
        lambda: wire.ended(wire.reply(text.encode())),
        lambda: wire.looked_from_text(text, ["cell"], ["name"]),
    ):
        try:
            read()
        except BadReply:
            pass


@pytest.mark.parametrize("shape", [[10**4000] * 4000, [1] * 65, [-1, -1]])
def test_a_shape_that_no_tensor_has_is_refused_at_once(shape):
    """Multiplying the first one out would take hours."""
    with pytest.raises(BadReply):
        played({"tensor": ["float32", shape, [1.0], "contiguous", ""]})


def test_of_what_cells_define_only_what_was_asked_for_is_read():
    text = json.dumps({
        "errors": {"cell": "x" * 10**6, **{f"other {number}": "y" for number in range(1000)}},
        "others": {"name": "3", "os": "4"},
        "missing": ["second", "third"],
    })  # fmt: skip
    looked = wire.looked_from_text(text, ["cell"], ["name", "second"])
    assert looked == wire.Looked({"cell": "x" * 500}, {"name": "3"}, ("second",))


def played(value):
    return wire.played_from_text(json.dumps([{**ROW, "value": value}]), 1)


def test_more_than_a_check_writes_is_not_read():
    """Millions of tuples take gigabytes."""
    with pytest.raises(BadReply, match="characters"):
        played([[1]] * 10**6)
