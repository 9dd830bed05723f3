"""The mechanism behind all checks: values as plain data, messages under NCCL's rules, shares and limits."""

import importlib
import pkgutil
import sys
import time
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import checks
from course_lib.checks import exercise_07, mistakes, nccl_order, playing, tolerance, values
from course_lib.checks.checking import check
from course_lib.checks.judging import judge
from course_lib.checks.messages import Message
from course_lib.checks.part import ONE_PROCESS, Attempt, Case, Compared, Fault, Part, Played
from course_lib.checks.report import report
from course_lib.checks.values import Module, Tensor, counting_up
from course_lib.ranks import launch

# --- Values ---

shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
layouts = st.sampled_from(["contiguous", "strided", "transposed"])


@given(shapes, st.sampled_from(["float32", "float64", "int64", "int32", "bfloat16"]), layouts)
@settings(deadline=None)
def test_a_described_tensor_is_rebuilt_in_its_layout(shape, dtype, layout):
    if layout == "transposed" and len(shape) != 2:
        layout = "contiguous"
    described = counting_up(dtype, shape, 7, layout)
    built = values.build(described, "cpu")
    assert (tuple(built.shape), built.dtype) == (shape, getattr(torch, dtype))
    assert values.describe(built) == described
    if layout != "contiguous" and built.numel() > 6:
        assert not built.is_contiguous()


@pytest.mark.parametrize("dtype", values.ELEMENT_BYTES)
def test_a_described_tensor_has_as_many_bytes_as_torchs(dtype):
    described = values.counting_up(dtype, (2, 3), 1)
    assert described.nbytes == values.build(described, "cpu").nbytes


def test_values_that_only_look_alike_differ():
    one = Tensor("float32", (1,), (1.0,))
    assert one == Tensor("float32", (1,), (1.0,), "strided")
    for other in (Tensor("float64", (1,), (1.0,)), Tensor("float32", (1, 1), (1.0,)), 1.0):
        assert one != other
    assert Tensor("float32", (1,), (0.0,)) != Tensor("float32", (1,), (-0.0,))
    assert Tensor("float32", (1,), (float("nan"),)) == Tensor("float32", (1,), (float("nan"),))


@pytest.mark.parametrize("value", [np.int64(7), np.uint8(7), np.float32(1.5), np.bool_(True), (np.int64(7),)])
def test_numpys_numbers_are_taken_as_pythons(value):
    described = values.describe(value)
    assert described == value
    item = described[0] if isinstance(described, tuple) else described
    assert type(item) in (int, float, bool)


class Liar(int):
    def __eq__(self, other):
        return True


@pytest.mark.parametrize(
    "value",
    [Liar(1), {1: 2}, object(), [[[[[1]]]]], torch.ones(1).expand(2**40), torch.ones(3).to_sparse(),
     1 << 1000, "a" * 10**5, [1] * 10**4],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_plain_becomes_its_types_name(value):
    described = values.describe(value)
    assert described != 1
    assert "Unknown" in repr(described)


def test_a_list_that_holds_itself_comes_to_an_end():
    endless = [torch.ones(1)]
    endless.append(endless)
    assert len(list(values.tensors(endless))) < 5
    assert "Unknown" in repr(values.describe(endless))


MODULE = Module(
    {
        "embedding.weight": counting_up("float32", (3, 2), 1),
        "layers.0.weight": counting_up("int8", (2, 2), 1),
        "layers.0.bias": counting_up("bfloat16", (2,), 1),
        "head.weight": "embedding.weight",
    },
    frozen=frozenset({"layers.0.weight"}),
    buffers={"layers.0.mask": Tensor("bool", (1,), (True,))},
)


def test_a_described_module_is_rebuilt_with_its_ties():
    module = values.build(MODULE, "cpu")
    assert module.head.weight is module.embedding.weight
    assert len(list(module.parameters())) == 3
    assert not module.get_submodule("layers.0").weight.requires_grad
    assert values.describe(module) == MODULE


def test_a_change_to_a_module_is_noticed():
    for change in (
        lambda module: module.embedding.weight.data.zero_(),
        lambda module: module.embedding.weight.requires_grad_(False),
        lambda module: module.register_buffer("more", torch.zeros(1)),
        lambda module: module.head.register_parameter("weight", torch.nn.Parameter(torch.ones(3, 2))),
    ):
        module = values.build(MODULE, "cpu")
        change(module)
        assert values.describe(module) != MODULE


def test_a_tensor_of_torchs_own_layers_is_described_as_it_is():
    layer = torch.nn.BatchNorm1d(2)
    described = values.describe(layer)
    assert set(described.parameters) == {"weight", "bias"}
    assert described.buffers["num_batches_tracked"] == Tensor("int64", (), (0,))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1024, "1024"), (10**4, "10_000"), ((2, -(10**13)), "(2, -10_000_000_000_000)"), (15e5, "1_500_000.0"),
     (10**299, f"1{39 * '0'}… (300 digits)"), ((7,), "(7,)"), ((1,) * 9, "(1, 1, 1, 1, 1, 1, 1, 1, …)")],
)
def test_large_numbers_are_readable(value, shown):
    assert values.text(value) == shown


# --- Mistakes in numbers ---


def compared(expected, got, *arguments):
    case = Case("", (arguments,), (expected,))
    return Compared(1, case, [Played(got, case.arguments[0], "", ())])


@pytest.mark.parametrize(
    ("got", "unit"),
    [(85.5, "GB"), (79.65, "GiB"), (85_520.8, "MB"), (81_559, "MiB"), (85_520_809_984.0, None), (81, None)],
)
def test_another_unit_than_bytes_is_named(got, unit):
    sentence = mistakes.other_unit_than_bytes(compared(81_559 * 2**20, got))
    assert (sentence or "None").startswith(f"This is in {unit} (1" if unit else "None")


def test_nothing_has_no_unit():
    assert mistakes.other_unit_than_bytes(compared(0, 0.0)) is None
    assert mistakes.other_unit_than_bytes(compared((0, "a"), (0, "b"))) is None


@pytest.mark.parametrize(
    ("got", "what"),
    [
        ("7", "text"), (True, "True"), (Tensor("int64", (), (7,)), "a tensor"), ((7, 8), "several values"),
        (float("nan"), "nan: something was divided by zero"), (float("inf"), "inf"),
        (values.Unknown("dict"), "a dict"),
    ],
)  # fmt: skip
def test_what_is_not_a_number_is_named(got, what):
    assert f"and this is {what}" in mistakes.not_a_number(compared(8, got))
    assert f"and this is {what}" in mistakes.not_a_number(compared((8, 9), (8, got)))
    assert mistakes.not_a_number(compared(8, 7.0)) is None


def test_a_float_in_place_of_a_whole_number_is_named():
    assert "Bytes are whole numbers" in mistakes.no_whole_number(compared((1, 2), (1, 2.0)))
    assert mistakes.no_whole_number(compared((1, 2.0), (2, 2.0))) is None


def test_a_mistaken_formula_is_recognized_in_all_wrong_ranks():
    recognize = mistakes.AsIf(lambda x: (x, "all"), "sentence")
    assert recognize(compared((2, "all"), (1, "all"), 1)) == "sentence"
    assert recognize(compared((2, "all"), (1.0 + 1e-12, "all"), 1)) == "sentence"
    assert recognize(compared((1, "all"), (1.0, "all"), 1)) is None  # the formula makes no difference
    for got in ((3, "all"), (1, "some"), (1,), 1, True, None):
        assert recognize(compared((2, "all"), got, 1)) is None


# --- Messages under NCCL's rules ---


def send(peer, **more):
    return Message("send", peer, more.pop("tag", 0), more.pop("batch", None), **more)


def receive(peer, **more):
    return Message("recv", peer, more.pop("tag", 0), more.pop("batch", None), **more)


@pytest.mark.parametrize(
    ("messages", "stuck"),
    [
        ([[], []], ()),
        ([[send(1)], [receive(0)]], ()),
        ([[send(1)], []], (0,)),
        # Both post the same thing first: each waits for the other's second.
        ([[send(1), receive(1)], [send(0), receive(0)]], (0, 1)),
        ([[receive(1), send(1)], [receive(0), send(0)]], (0, 1)),
        ([[send(1), receive(1)], [receive(0), send(0)]], ()),
        ([[send(1, batch=0), receive(1, batch=0)], [send(0, batch=0), receive(0, batch=0)]], ()),
        # A batch and single messages use communicators of their own.
        ([[send(1, batch=0)], [receive(0)]], (0, 1)),
        # Each pair of ranks has a queue of its own ...
        ([[send(1), receive(2)], [send(2), receive(0)], [send(0), receive(1)]], ()),
        # ... but a rank that waits posts nothing more.
        ([[send(1, waited=1), receive(2)], [send(2, waited=1), receive(0)], [send(0, waited=1), receive(1)]],
         (0, 1, 2)),
        ([[receive(2, waited=1), send(1)], [send(2, waited=1), receive(0)], [send(0, waited=1), receive(1)]],
         ()),
    ],
)  # fmt: skip
def test_who_is_stuck(messages, stuck):
    assert nccl_order.follow(messages).stuck == stuck


def test_messages_that_only_tags_tell_apart():
    crossed = [[send(1, tag=1), send(1, tag=2)], [receive(0, tag=2), receive(0, tag=1)]]
    assert nccl_order.follow(crossed) == nccl_order.Verdict((), True)
    in_order = [[send(1, tag=1), send(1, tag=2)], [receive(0, tag=1), receive(0, tag=2)]]
    assert nccl_order.follow(in_order) == nccl_order.Verdict((), False)


# --- Playing and judging ---


def double(x):
    return 2 * x


def draw(size):
    return [Case("a number", tuple((rank,) for rank in range(size)), tuple(2 * rank for rank in range(size)))]


PART = Part("double(x)", draw, world_sizes=(1, 2, 3))


@pytest.mark.long
def test_all_cases_of_a_world_size_are_one_run(monkeypatch):
    calls, call = [], launch.call
    monkeypatch.setattr(launch, "call", lambda *args, **more: calls.append(args[1]) or call(*args, **more))
    assert check(PART, double) == 1.0
    assert calls == [1, 2, 3]


def test_the_share_is_that_of_the_world_sizes(capsys):
    def wrong_with_two(x):
        return 2 * x + (torch.distributed.get_world_size() == 2)

    assert check(PART, wrong_with_two) == 0.66
    assert "2 of 3 world sizes are right." in capsys.readouterr().out


def test_one_rank_alone_earns_nothing_and_the_report_says_so(capsys):
    assert check(PART, lambda x: 0) == 0.0
    said = "1 of 3 world sizes are right. N = 1 alone earns nothing: one rank sends no message."
    assert said in capsys.readouterr().out
    assert check(PART, lambda x: 1) == 0.0
    assert "0 of 3 world sizes are right." in (printed := capsys.readouterr().out)
    assert "earns nothing" not in printed


ALONE = Part(
    "double(x)",
    lambda ranks: [Case(f"twice {x}", ((x,),), (2 * x,)) for x in (1, 2, 3)],
    world_sizes=ONE_PROCESS,
)


def test_in_one_process_the_share_is_that_of_the_cases(capsys):
    def fails(x):
        print("thinking")
        if x == 2:
            raise IndexError("too far")
        return 2 * x

    assert check(ALONE, double) == 1.0
    assert "  right  twice 3\n\n3 of 3 cases are right." in capsys.readouterr().out
    assert check(ALONE, fails) == 0.66
    printed = capsys.readouterr().out
    assert "  right  twice 1\n  WRONG  twice 2\n         raised IndexError: too far\n" in printed
    assert "         printed:\n           thinking\n  right  twice 3\n" in printed


def test_in_one_process_expected_and_got_stand_below_each_other(capsys):
    assert check(ALONE, lambda x: 4) == 0.33
    assert "WRONG  twice 3\n         expected 6\n         got      4\n" in capsys.readouterr().out


def test_each_case_of_one_process_is_a_fresh_process():
    seen = []

    def remembers(x):
        seen.append(x)
        return 2 * x * len(set(seen))

    assert check(ALONE, remembers) == 1.0
    assert seen == []


def test_in_one_process_a_second_call_must_give_the_same(capsys):
    def grows(x, seen=[]):  # noqa: B006
        print("thinking")
        seen.append(x)
        return 2 * x * len(seen)

    assert check(ALONE, grows) == 0.0
    printed = capsys.readouterr().out
    indent = " " * 9
    assert f"{indent}got      4\n{indent}printed:\n{indent}  thinking\n  WRONG" in printed
    assert "Only the first call is right" in printed
    assert "Only the first call" not in report_of(lambda x: 7, capsys)


def report_of(function, capsys, part=ALONE):
    check(part, function)
    return capsys.readouterr().out


def test_a_function_of_other_arguments_is_told_so_without_the_checks_own_lines(capsys):
    printed = report_of(lambda x, y: 7, capsys, replace(ALONE, recognize_error=mistakes.in_error))
    assert "keep the line with `def` as it was" in printed
    assert "playing.py" not in printed


def test_what_is_expected_in_a_secret_case_is_not_printed(capsys):
    cases = [Case.alone(f"twice {x}", (x,), 2 * x, secret=x == 700) for x in (1, 2, 700)]
    part = Part("double(x)", lambda ranks: cases, world_sizes=ONE_PROCESS)
    shown = {1: 2, 2: 4}
    for table in (shown.get, shown.__getitem__):
        assert check(part, lambda x, table=table: table(x)) == 0.66
        printed = capsys.readouterr().out
        assert "1400" not in printed
        assert "Only the case whose answer is not shown is wrong: compute" in printed
    assert "whose answer is not shown" not in report_of(lambda x: x, capsys, part)
    assert check(part, double) == 1.0


# --- Which mistake is named ---

A_TENSOR = Tensor("float32", (7,), (1.0,) * 7)
COMPLEX = Tensor("complex64", (1,), (1 + 2j,))
ODD = (
    None, 0, -1, 1.5, float("nan"), float("inf"), "x", True, (), (1,), (None, None), (1, 2), (1.0, 2.0),
    A_TENSOR, COMPLEX, (A_TENSOR, A_TENSOR), (A_TENSOR,), (COMPLEX, COMPLEX), (A_TENSOR, None), (A_TENSOR, 1),
    values.Unknown("dict"), (values.Unknown("dict"),) * 2, Module({}), 2**999, -(2**999), ((1, 2), (3, 4)),
    (1, 2, 3, None), (2**999, 2.0), ("recomputation", "x"), ("recomputation", None),
    ("8-bit Adam", float("nan")), (1, 2, 3),
)  # fmt: skip


EXERCISES = [module.name for module in pkgutil.iter_modules(checks.__path__) if "exercise_" in module.name]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_whatever_is_returned_can_be_judged(exercise):
    """In the notebook's process: an error there would be the check's own."""
    module = importlib.import_module(f"course_lib.checks.{exercise}")
    parts = [part for part in vars(module).values() if type(part) is Part]
    assert parts
    for part in parts:
        for case in part.draw(1 if part.one_process else 3)[:2]:
            in_place = bool(case.expected_arguments)
            for value in filter(lambda odd: isinstance(odd, Tensor) or not in_place, ODD):
                # A function that works in place may leave its tensors in any form.
                left = [tuple(value if in_place and isinstance(one, Tensor) else one for one in arguments)
                        for arguments in case.arguments]  # fmt: skip
                played = [Played(value, arguments, "", ()) for arguments in left]
                judgement = judge(part, Attempt(len(played), [case], [played]))
                assert "0 of 1" in report(part, [judgement])


TRIPLE = mistakes.AsIf(lambda x: 3 * x, "tripled")
SQUARE = mistakes.AsIf(lambda x: x * x, "squared")
TRIPLED_ONCE = mistakes.AsIf(lambda x: 3 * x, "tripled", case_by_case=True)


@pytest.mark.parametrize(
    ("function", "recognizers", "named"),
    [
        (lambda x: 3 * x, [SQUARE, TRIPLE], "tripled"),  # both fit with 3, and only one everywhere
        (lambda x: x * x, [TRIPLE, SQUARE], "squared"),
        (lambda x: {3: 9}.get(x, 1), [SQUARE, TRIPLE], None),  # one of many wrong numbers
        (lambda x: 9 if x == 3 else 2 * x, [TRIPLE, SQUARE], None),  # right where tripling would be wrong
        (lambda x: 9 if x == 3 else 2 * x, [TRIPLED_ONCE], "tripled"),
        (lambda x: 7 if x == 5 else 3 * x, [TRIPLE], "tripled"),
    ],
)
def test_a_mistake_is_named_only_if_it_explains_enough(function, recognizers, named, capsys):
    cases = [Case.alone(f"twice {x}", (x,), 2 * x) for x in (1, 3, 4, 5, 6)]
    part = Part("double(x)", lambda ranks: cases, recognizers, world_sizes=ONE_PROCESS)
    last = report_of(function, capsys, part).splitlines()[-3]
    assert last.endswith(named or "6")
    assert "tripled" not in last or named == "tripled"


def wrong_with(*sizes):
    def wrong(x):
        return 2 * x + (torch.distributed.get_world_size() in sizes)

    return wrong


def test_even_numbers_of_ranks_are_named_only_if_all_of_them_are_right(capsys):
    part = Part("double(x)", draw, world_sizes=(2, 3, 4, 5))
    assert "only for an even number" in report_of(wrong_with(3, 5), capsys, part)
    assert "only for an even number" not in report_of(wrong_with(2, 3, 5), capsys, part)


def test_one_process_without_end_is_ended(monkeypatch, capsys):
    monkeypatch.setattr(playing, "SECONDS_WITHOUT_PROGRESS", 1)

    def loops(x):
        while x > 1:
            pass
        return 2 * x

    assert check(ALONE, loops) == 0.33
    printed = capsys.readouterr().out
    assert "WRONG  twice 2\n         did not return within" in printed
    assert "test_checks.py, line " in printed


def test_what_the_function_prints_is_shown_only_when_it_is_wrong(capsys):
    def right(x):
        print("thinking")
        return 2 * x

    def wrong(x):
        print("thinking")

    check(PART, right)
    assert "thinking" not in capsys.readouterr().out
    check(PART, wrong)
    assert "[rank 1] thinking" in capsys.readouterr().out


def test_after_two_hangs_the_rest_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(playing, "SECONDS_WITHOUT_PROGRESS", 1)

    def sleep(x):
        time.sleep(600)

    began = time.monotonic()
    assert check(PART, sleep) == 0.0
    assert time.monotonic() - began < 60
    assert "N=3  WRONG  left out, since others did not end" in capsys.readouterr().out


def test_a_failure_names_the_case_and_the_learners_line(capsys):
    def fails(x):
        raise IndexError("too far")

    check(PART, fails)
    printed = capsys.readouterr().out
    assert "N=1  WRONG  a number\n" in printed
    assert "raised IndexError: too far" in printed
    assert 'raise IndexError("too far")' in printed


@pytest.mark.parametrize("value", [True, 2.0, "2", Liar(2), None])
def test_only_a_value_of_the_right_type_is_right(value):
    one = Part("f(x)", lambda size: [Case("", ((),) * size, (2,) * size)], world_sizes=(2,))
    assert check(one, lambda: value) == 0.0
    assert check(one, lambda: 2) == 1.0
    pair = Part("f(x)", lambda size: [Case("", ((),) * size, ((1, 2),) * size)], world_sizes=(2,))
    assert check(pair, lambda: (1, value)) == 0.0
    assert check(pair, lambda: [1, 2]) == 1.0


def test_messages_are_recorded_whatever_form_the_calls_have():
    def shift(value):
        me, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
        group, tensor = torch.distributed.group.WORLD, torch.tensor([value])
        received = torch.zeros_like(tensor)
        handle = torch.distributed.irecv(received, src=(me - 1) % world, tag=3)
        group.send([tensor], (me + 1) % world, tag=3).wait(timeout=timedelta(seconds=5))
        handle.wait(timeout=timedelta(seconds=5))
        return received.item()

    def posted(found):
        messages = [message for played in found.played for message in played.messages]
        kinds = [(message.kind, message.tag, message.waited) for message in messages]
        return None if kinds == [("recv", 3, 2), ("send", 3, 2)] * 2 else str(kinds)

    case = Case("", ((1,), (2,)), (2, 1))
    assert check(Part("shift(value)", lambda size: [case], accept=posted, world_sizes=(2,)), shift) == 1.0


def memory_check(function):
    tensor = counting_up("float32", (4,), 0)
    case = Case("", ((tensor,),) * 2, ((tensor, tensor),) * 2)
    return check(Part("f(t)", lambda size: [case], world_sizes=(2,)), function)


def test_results_must_have_memory_of_their_own():
    assert memory_check(lambda tensor: (tensor.clone(), tensor.clone())) == 1.0
    assert memory_check(lambda tensor: tuple(torch.stack([tensor, tensor]))) == 1.0
    assert memory_check(lambda tensor: (tensor, tensor.clone())) == 0.0
    assert memory_check(lambda tensor: (tensor.clone(), tensor.view(4))) == 0.0
    assert memory_check(lambda tensor: (tensor.clone(),) * 2) == 0.0


def test_the_notebooks_process_needs_no_torch():
    import subprocess

    code = (
        "import sys; from dataclasses import replace\n"
        "from course_lib.checks import checking, exercise_00\n"
        "part = replace(exercise_00.NEIGHBORS, world_sizes=(2,))\n"
        "checking.check(part, lambda rank, ranks: ((rank - 1) % ranks, (rank + 1) % ranks))\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False"
    assert run.stderr == ""


# --- In place, in messages ---


def numbers(*these, dtype="float32"):
    return Tensor(dtype, (len(these),), these)


def in_place(function, afterwards=None, **more):
    """Check a function that is to leave the sum of two ranks' tensors in its argument."""
    given = ((numbers(1.0, 2.0),), (numbers(10.0, 20.0),))
    case = Case.in_place("", given, ((afterwards or numbers(11.0, 22.0),),) * 2, **more.pop("case", {}))
    return check(Part("f(t)", lambda size: [case], world_sizes=(2,), **more), function)


def exchanged(tensor, late=False):
    other = torch.empty_like(tensor)
    peer = 1 - torch.distributed.get_rank()
    handle = torch.distributed.irecv(other, peer)
    torch.distributed.isend(tensor.clone(), peer).wait()
    handle.wait()
    return other


def test_a_function_in_place_is_judged_by_its_argument(capsys):
    def adds(tensor):
        tensor += exchanged(tensor)
        return tensor

    assert in_place(adds) == 1.0
    assert in_place(lambda tensor: tensor + exchanged(tensor)) == 0.0
    assert "rank 0: expected float32 2 [11, 22]\n" in capsys.readouterr().out


def test_a_tensor_that_was_given_other_memory_is_not_changed_in_place(capsys):
    def moves(tensor):
        tensor.data = tensor + exchanged(tensor)

    assert in_place(moves, recognizers=[mistakes.argument_moved]) == 0.0
    printed = capsys.readouterr().out
    assert "got      float32 2 [11, 22], in other memory than before\n" in printed
    assert "\nThe tensor lies in other memory than before" in printed


def test_a_number_that_does_not_matter_may_be_any():
    def adds_first(tensor):
        tensor[0] += exchanged(tensor)[0]

    assert in_place(adds_first, numbers(11.0, None)) == 1.0
    assert in_place(adds_first, numbers(None, 22.0)) == 0.0


def test_sums_that_round_may_differ_a_little_but_not_between_ranks(capsys):
    def adds(tensor, more=0.0):
        tensor += exchanged(tensor) + more * torch.distributed.get_rank()

    rough, alike = {"tolerance": 1e-3}, {"tolerance": 1e-3, "same_on_all_ranks": True}
    assert in_place(lambda tensor: adds(tensor, 1e-5), case=rough) == 1.0
    assert in_place(lambda tensor: adds(tensor, 1e-2), case=rough) == 0.0
    assert in_place(adds, case=alike) == 1.0
    capsys.readouterr()
    assert in_place(lambda tensor: adds(tensor, 1e-5), case=alike) == 0.0
    printed = capsys.readouterr().out
    assert "rank 1: expected float32 2 [11.0, 22.0], as on rank 0\n" in printed
    assert "got      float32 2 [11.000009536743164, 22.000009536743164]\n" in printed


def test_a_large_tensor_is_compared_by_a_part_and_a_digest():
    shape = (300, 1000)
    one = counting_up("float32", shape, 3, "transposed")
    assert len(one.numbers) == values.PERIOD
    built = values.build(one, "cpu")
    assert built.flatten()[values.PERIOD + 5] == 8
    assert values.describe(built) == one
    built[200, 7] += 1
    described = values.describe(built)
    assert described != one and not values.agree(described, one)
    assert (described.numbers, len(described.digest)) == (one.numbers, 64)
    assert values.texts(one, described)[1].endswith("[3, 4, 5, 6, …], and other numbers further on")
    with pytest.raises(ValueError, match="expected 1009 numbers"):
        Tensor("float32", shape, (1.0,))


def test_what_differs_further_on_is_shown():
    expected, got = numbers(*range(10), dtype="int64"), numbers(*range(8), 0, 9, dtype="int64")
    assert values.texts(expected, got) == (
        "int64 10 [… from element 8 on: 8, 9]", "int64 10 [… from element 8 on: 0, 9]"
    )  # fmt: skip


def exchange_messages(function, size=2):
    """What two ranks posted."""
    seen = []
    given = tuple((numbers(1.0 + rank, 2.0),) for rank in range(size))
    case = Case.in_place("", given, ((numbers(None, None),),) * size, late_rank=1)
    part = Part("f(t)", lambda _: [case], accept=lambda found: seen.append(found), world_sizes=(size,))
    assert check(part, function) == 1.0
    return seen[0]


def test_bytes_and_global_ranks_of_messages_are_recorded():
    def in_a_group(tensor):
        dist = torch.distributed
        group = dist.new_group([0, 2])
        if dist.get_rank() != 1:
            received, sent, peer = torch.empty(3), torch.ones(2), 2 - dist.get_rank()
            operations = [(dist.irecv, received[:2]), (dist.isend, sent)]
            wait(dist.batch_isend_irecv([dist.P2POp(*operation, peer, group) for operation in operations]))

    found = exchange_messages(in_a_group, 3)
    posted = [
        [(message.kind, message.peer, message.bytes) for message in played.messages]
        for played in found.played
    ]  # fmt: skip
    assert posted == [[("recv", 2, 8), ("send", 2, 8)], [], [("recv", 0, 8), ("send", 0, 8)]]


def test_collectives_are_recorded_under_the_learners_names():
    def calls_all(tensor):
        dist, (one, other) = torch.distributed, tensor.split(1)
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 0)
        dist.all_gather([one, other], torch.ones(1))
        dist.barrier()
        vars(torch)["ops"]._c10d_functional.all_reduce(tensor, "sum", dist.group.WORLD.group_name)

    names = ("all_reduce", "broadcast", "all_gather", "barrier", "all_reduce")
    assert exchange_messages(calls_all).played[0].collectives == names
    assert exchange_messages(exchanged).played[0].collectives == ()


def test_a_collective_that_does_the_work_is_named_and_a_barrier_is_none(capsys):
    def sums(tensor):
        torch.distributed.all_reduce(tensor)

    def waits(tensor):
        torch.distributed.barrier()
        tensor += exchanged(tensor)

    assert in_place(sums, accept=mistakes.collective_called) == 0.0
    assert "`dist.all_reduce` does the work here" in capsys.readouterr().out
    assert in_place(waits, accept=mistakes.collective_called) == 1.0


def faults_of(function):
    """Of what is received and of what is sent."""
    messages = [message for played in exchange_messages(function).played for message in played.messages]
    return [{message.fault for message in messages if message.kind == kind} for kind in ("recv", "send")]


def post(received, sent):
    peer = 1 - torch.distributed.get_rank()
    return torch.distributed.irecv(received, peer), torch.distributed.isend(sent, peer)


def wait(handles):
    for handle in handles:
        handle.wait()


def test_memory_of_messages_under_way_is_watched():
    def reads(tensor):
        received = torch.zeros(4)
        handles = post(received[:2], tensor)
        tensor.clone()
        _ = received * 2
        wait(handles)

    def reads_beside(tensor):
        received = torch.zeros(4)
        handles = post(received[:2], tensor)
        received[2:] += received[2:] + torch.zeros_like(received).sum() + tensor.sum()
        wait(handles)

    def changes(tensor):
        handles = post(torch.zeros(2), tensor)
        tensor.numpy()[0] += 1
        wait(handles)

    def waits_first(tensor):
        received = torch.zeros(2)
        receives, sends = post(received, tensor)
        receives.wait()
        received += 1
        sends.wait()
        tensor += received

    def sends_what_it_receives(tensor):
        wait(post(tensor, tensor))

    assert faults_of(reads) == [{"read"}, {""}]
    assert faults_of(changes) == [{""}, {"changed"}]
    assert faults_of(sends_what_it_receives) == [{"read"}, {""}]
    assert faults_of(reads_beside) == faults_of(waits_first) == [{""}, {""}]


def test_what_is_read_too_early_by_other_means_than_torch_is_a_wrong_number():
    def reads(tensor):
        received = torch.zeros(2)
        handles = post(received, tensor.clone())
        early = received.tolist()
        wait(handles)
        tensor += torch.tensor(early)

    assert in_place(reads, case={"late_rank": 1}) == 0.0


def test_a_part_may_have_its_own_time_limits(capsys):
    def sleep(tensor):
        time.sleep(600)

    limits = launch.Limits(1, 3)
    began = time.monotonic()
    assert in_place(sleep, limits=limits) == 0.0
    assert time.monotonic() - began < 30
    printed = capsys.readouterr().out
    assert "(a run without progress is ended after 1 s)" in printed
    assert "No rank made progress for 1 s" in printed


def test_what_was_seen_of_a_fault_stands_beside_its_world_size(capsys):
    def fault(found):
        return Fault("Too much is sent.", f"rank 0 sends {found.ranks} bytes")

    part = Part("double(x)", draw, accept=fault, world_sizes=(2, 3))
    assert check(part, double) == 0.0
    printed = capsys.readouterr().out
    assert "N=3  WRONG  the right result, but not in the right way: rank 0 sends 3 bytes\n" in printed
    assert "\nToo much is sent.\n" in printed


def test_a_first_case_by_itself_is_seen_whatever_the_others_do(capsys):
    def draw_two(size):
        given = ((1,),) * size
        first = Case("first", given, (2,) * size, by_itself=True)
        return [first, Case("second", ((3,),) * size, (6,) * size)]

    part = Part("double(x)", draw_two, world_sizes=(2,))

    def fails_later(x):
        if x == 3:
            raise IndexError("too far")
        return 7

    assert check(part, fails_later) == 0.0
    printed = capsys.readouterr().out
    assert "N=2  WRONG  1 of 1 case\n              WRONG  first\n" in printed
    assert "too far" not in printed
    assert check(part, lambda x: 2 if x == 1 else 5) == 0.0
    printed = capsys.readouterr().out
    assert "1 of 2 cases\n              right  first\n              WRONG  second\n" in printed
    assert check(part, double) == 1.0
    assert "N=2  right  2 cases" in capsys.readouterr().out

    def right_at_first(x):
        if x == 3:
            raise IndexError("too far")
        return 2

    assert check(part, right_at_first) == 0.0
    printed = capsys.readouterr().out
    assert "second" in printed and "too far" in printed and "1 of 1 case" not in printed


def test_only_what_was_lost_is_played_again():
    """A run that ends in its first case has shown it; of one that ends later nothing came back."""
    cases = [Case("first", ((1,),), (2,), by_itself=True), Case("second", ((3,),), (6,))]
    part = Part("double(x)", lambda size: cases, world_sizes=(2,))

    def played(function):
        counts = []

        def play(function, cases, limits):
            counts.append(len(cases))
            return playing.play(function, cases, limits)

        list(playing.attempts(part, function, play))
        return counts

    assert played(double) == [2]
    assert played(lambda x: 7) == [2]
    assert played(lambda x: 1 // 0) == [2]
    assert played(lambda x: 2 // (3 - x)) == [2, 1]


def test_what_is_left_is_shown_as_a_table_outside_of_notebooks(capsys):
    def left(compared):
        return "Left by f on 2 ranks", [[{0, 1}, {0}], [{1}, {0, 1}]]

    in_place(lambda tensor: None, draw_left=left)
    printed = capsys.readouterr().out
    assert "0 of 1 world sizes are right.\n\nLeft by f on 2 ranks:\n" in printed
    assert "rank 1  _1       01\n" in printed


def test_watching_operators_does_not_load_torchs_compiler(monkeypatch):
    """That takes seconds in every rank, where it is not loaded before ranks are forked."""
    monkeypatch.setattr(launch, "import_beforehand", lambda modules: None)
    if launch._starter is not None:
        launch._starter.close()  # one that was idle for a while has loaded it beforehand

    def adds(tensor):
        tensor += exchanged(tensor)
        assert "torch._dynamo" not in sys.modules

    assert in_place(adds) == 1.0


def loads_nothing_more():
    before = set(sys.modules)
    torch.func.grad(torch.sum)(torch.ones(2))
    torch.optim.AdamW([torch.ones(2)]).zero_grad()
    return sorted(name for name in set(sys.modules) - before if name.startswith("torch._dynamo"))


@pytest.mark.skipif(sys.platform != "linux", reason="nobody imports for others")
def test_where_something_is_trained_torchs_compiler_is_loaded_once():
    """Else each rank of a right answer with torch.func loads it, and a busy machine takes that for a hang."""
    importlib.import_module("course_lib.checks.exercise_05")
    if launch._starter is not None:
        launch._starter.close()
    found, error, _ = playing.run(loads_nothing_more, 2, (), launch.Limits(20))
    assert error is None and found == [[], []]


# --- Forms of arguments and results ---


@pytest.mark.parametrize(("exercise", "name", "case", "expected"), [
    ("exercise_02", "broadcast", (("a", "b"),), ["list"]),
    ("exercise_05", "noise_scale", ((1.0,), (2.0,), 4, 8), ["list", "list", "int", "int"]),
    ("exercise_06", "fill_buckets", ((4, 8), 12), ["list", "int"]),
    ("exercise_07", "bucket_times", (((1, 0),), (2.0, 1.0), (0.5,), 2.0), ["list", "list", "list", "float"]),
    ("exercise_07", "best_bucket", (((4,), (1.0,), 1.0), (2, 1.0, 1.0), (1, 25), 2),
     ["Model", "Network", "list", "int"]),
])  # fmt: skip
def test_what_an_exercise_calls_a_list_is_one(monkeypatch, exercise, name, case, expected):
    module, handed_over = importlib.import_module(f"course_lib.checks.{exercise}"), []
    take = lambda part, function, *more: handed_over.append(function)  # noqa: E731
    monkeypatch.setattr(module, "_check", take, raising=False)
    monkeypatch.setattr(tolerance, "check", take)
    getattr(module, name)(lambda *arguments: [type(each).__name__ for each in arguments])
    assert handed_over[0](*case) == expected


def test_buckets_are_lists_of_lists():
    buckets, ready, seconds, _ = exercise_07.case("bucket_times", 2)
    assert [type(bucket) for bucket in buckets] == 3 * [list]
    assert [0] + seconds and ready + [0]


@pytest.mark.parametrize(("result", "described"), [
    (np.array([25.0, 0.5]), (25.0, 0.5)), (np.array([[1, 2], [3, 4]]), ((1, 2), (3, 4))),
    (np.array(2.5), 2.5), ([np.array([1.0]), np.float32(0.5)], ((1.0,), 0.5)),
    (np.zeros(2000), values.Unknown("ndarray")),
])  # fmt: skip
def test_arrays_are_as_good_as_lists(result, described):
    assert values.describe(result) == described


@pytest.mark.parametrize(("got", "expected", "right"), [
    (25.0, 25, True), (25, 25.0, True), (25.5, 25, False), (True, 1, False), ("25", 25, False),
    (None, 25, False), ((25.0, 0.3), (25, 0.3), True), ((25.0,), (25, 0.3), False), (float("nan"), 25, False),
])  # fmt: skip
def test_a_float_will_do_for_a_whole_number_where_numbers_are_compared_by_tolerance(got, expected, right):
    assert tolerance.near(got, expected, 1e-9) == right


@pytest.mark.parametrize(("got", "says_so"), [
    (round(1 / 3, 6), True), (float(np.float32(1 / 3)), True), (round(1 / 3, 2), False),  # that is off by 1%
    (1 / 3 + 1e-5, False), ((round(1 / 3, 6), 1.0), False), (float("inf"), False), ("0.333", False),
])  # fmt: skip
def test_digits_that_were_cut_off_are_said(got, says_so):
    case = Case.alone("a third", (), 1 / 3)
    assert bool(tolerance.rounded(Compared(1, case, [Played(got, (), "", ())]))) == says_so
