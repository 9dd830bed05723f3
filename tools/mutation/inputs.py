"""Inputs that no check has: other world sizes, shapes and numbers, to tell mutants from solutions.

What is expected comes from the solution itself, so cases say nothing of it; but those in place
say with a None where any number will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

from course_lib.checks.exercise_03 import halves, tensors
from course_lib.checks.exercise_05 import in_fp32, streaming, synchronizing, tokens
from course_lib.checks.exercise_06 import collecting, diagnosis, launching, paper
from course_lib.checks.exercise_07 import stepping, tracing
from course_lib.checks.exercise_08 import assembling, predicting, resuming
from course_lib.checks.given import Cluster, Model, Network, Run, Trained
from course_lib.checks.part import Case
from course_lib.checks.values import Module, Tensor, counting_up
from course_lib.hardware import ACCELERATORS
from course_lib.transformer import CONFIGS

Runs = list[list[Case]]  # the cases of each run; all of a run have the same world size

_SIZES = (1, 2, 6, 7)
_FORMS: tuple[tensors.Form, ...] = (
    ("float32", (2, 3, 4), "contiguous"),
    ("int64", (), "contiguous"),
    ("float64", (6, 5), "transposed"),
    ("bfloat16", (9,), "strided"),
    ("int32", (0,), "contiguous"),
    ("float32", (23,), "contiguous"),
    ("int64", (1, 3), "transposed"),
)


def _alone(arguments: Sequence[tuple]) -> Runs:
    """All in one process, one after the other."""
    return [[Case.alone(f"case {number}", each, None) for number, each in enumerate(arguments)]]


def _on_ranks(draw: Callable[[int], list[Case]], sizes: Sequence[int] = _SIZES) -> Runs:
    return [draw(size) for size in sizes]


# --- exercise 00 ---


def _neighbors() -> Runs:
    return _alone([(rank, ranks) for ranks in (1, 2, 6, 7, 11, 256) for rank in range(ranks)])


def _messages(sides: int) -> Callable[[int], list[Case]]:
    def draw(ranks: int) -> list[Case]:
        cases = []
        for number, form in enumerate(_FORMS):
            given = [tensors.draw(form, ranks, f"side {side}") for side in range(sides)]
            arguments = tuple(zip(*given, strict=True))
            late = number % ranks if number % 3 == 0 else None
            cases.append(Case(tensors.title(form), arguments, (None,) * ranks, late_rank=late))
        return cases

    return draw


# --- exercise 01 ---


def _modules() -> Runs:
    def tensor(dtype: str, *shape: int) -> Tensor:
        return counting_up(dtype, shape, 1)

    modules = [
        Module({"weight": tensor("float64", 3, 7)}),
        Module({"a.weight": tensor("float32", 5, 5), "b.weight": "a.weight", "c": tensor("int8", 3)},
               frozen=frozenset({"c"})),
        Module({"scale": tensor("bfloat16"), "x.y.z": tensor("float16", 2, 3, 4)},
               buffers={"x.mask": tensor("int64", 4)}),
        Module({"a": tensor("float32", 0, 4), "b": tensor("int32", 1, 1)}),
    ]  # fmt: skip
    return _alone([(module,) for module in modules])


_RECIPES = ("mixed-adam", "fp32-adam", "mixed-adam-fp32-grads", "mixed-8bit-adam", "mixed-sgd-momentum",
            "bf16-adam")  # fmt: skip


def _recipes() -> Runs:
    return _alone([*product((0, 1, 7, 1_100_048_384, 10**15 + 3), _RECIPES)])


def _data_sheets() -> Runs:
    numbers = ((24_564, 165.2), (196_592, 1307.4), (1, 0.5))
    return _alone([(*pair, *flags) for pair in numbers for flags in product((False, True), repeat=2)])


_MODELS = ("gpt-2-small", "gpt-2-large", "llama-3-8b", "mistral-7b-v0.1", "qwen2.5-0.5b", "qwen2.5-7b")


def _layers() -> Runs:
    def just_enough(model: str, layers: int, batch: int, sequence: int) -> int:
        """Bytes that so many layers take, to the last one."""
        from dataclasses import replace

        from course_lib import activations, memory

        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        return state + activations.model_bytes(config, batch, sequence)

    cards = [ACCELERATORS[card].memory_bytes for card in ("rtx-3090", "h200", "t4")]
    batches = ((1, 256), (3, 1000), (6, 2048))
    some = [(model, card, *batch) for model in _MODELS for card, batch in zip(cards, batches, strict=True)]
    exact = [
        (model, just_enough(model, layers, 2, 512) + more, 2, 512)
        for model, layers in (("gpt-2-small", 3), ("mistral-7b-v0.1", 1)) for more in (-1, 0, 1)
    ]  # fmt: skip
    return _alone(some + exact)


def _changes() -> Runs:
    return _alone(
        [(model, *batch) for model in _MODELS for batch in ((1, 128), (2, 512), (5, 1000), (24, 2048))]
    )


# --- exercise 02 ---


def _broadcasts(ranks: int) -> list[Case]:
    cases = []
    for number, forms in enumerate((_FORMS[:1], _FORMS[1:4], _FORMS[4:], _FORMS)):
        by_form = [tensors.draw(form, ranks, f"tensor {place}") for place, form in enumerate(forms)]
        of_ranks = tuple((of_rank,) for of_rank in zip(*by_form, strict=True))
        cases.append(Case.in_place(
            f"{len(forms)} tensors", of_ranks, (of_ranks[0],) * ranks, late_rank=number % ranks
        ))  # fmt: skip
    return cases


def _averages(ranks: int) -> list[Case]:
    random, cases = Random(f"averages {ranks}"), []
    for number, (dtype, shape, layout) in enumerate(
        (("float64", (2, 5), "transposed"), ("float32", (), "contiguous"), ("float32", (9,), "strided"),
         ("float64", (3, 2, 2), "contiguous"))
    ):  # fmt: skip
        counts = [random.choice((1, 1, 3, 17, 64)) for _ in range(ranks)]
        if number % 2 and ranks > 1:
            counts[random.randrange(ranks)] = 0
        arguments = []
        for count in counts:
            numbers = [random.uniform(-9, 9) if count else math.nan for _ in range(math.prod(shape))]
            arguments.append((Tensor(dtype, shape, tuple(numbers), layout), count))
        cases.append(Case.in_place(f"{counts}, {dtype}", tuple(arguments), tuple(arguments),
                                   late_rank=number % ranks))  # fmt: skip
    return cases


def _sums(ranks: int) -> list[Case]:
    cases = []
    for number, form in enumerate((*_FORMS, ("float64", (4, 4), "strided"))):
        given = tuple((tensor,) for tensor in tensors.draw(form, ranks, "sums"))
        late = (number + 1) % ranks if number % 2 else None
        cases.append(Case.in_place(tensors.title(form), given, given, late_rank=late))
    given = tuple((tensor,) for tensor in tensors.rounding(7 * ranks + 3, ranks))
    cases.append(Case.in_place("that round", given, given, same_on_all_ranks=True))
    return cases


# --- exercise 03 ---


def _rows(left: Callable) -> Callable[[int], list[Case]]:
    def draw(ranks: int) -> list[Case]:
        counts = {"float32": 4 * ranks - 1, "int64": 2 * ranks + 1, "float64": 1, "int32": 0,
                  "bfloat16": 3 * ranks}  # fmt: skip
        cases = []
        for number, (dtype, count) in enumerate(counts.items()):
            rows = tensors.draw((dtype, (count,), "contiguous"), ranks, "other rows")
            after = tuple((Tensor(dtype, (count,), tuple(numbers)),) for numbers in left(rows))
            cases.append(Case.in_place(f"{dtype}, {count}", tuple((row,) for row in rows), after,
                                       late_rank=number % ranks if number < 2 else None))  # fmt: skip
        return cases

    return draw


# --- exercise 04 ---

_ALGORITHMS = ("star", "unchunked-ring", "ring", "recursive-doubling", "halving-doubling")


def _bytes_sent() -> Runs:
    sizes = ((1, 5), (2, 9), (3, 100), (6, 1000), (7, 12), (9, 4), (16, 12_345), (5, 0))
    return _alone([
        (algorithm, rank, ranks, elements, width)
        for algorithm in _ALGORITHMS[:3] for ranks, elements in sizes
        for width in (2, 8) for rank in range(ranks)
    ])  # fmt: skip


def _busiest() -> Runs:
    sizes = ((1, 5), (2, 9), (3, 101), (6, 1000), (7, 12), (9, 4), (16, 12_345))
    return _alone([(algorithm, *size, width) for algorithm in _ALGORITHMS[:3] for size in sizes
                   for width in (2, 8)])  # fmt: skip


def _seconds() -> Runs:
    networks = ((12_345_678, 3e-5, 2e9), (100, 1e-3, 1e6), (2**30, 0.0, 5e10))
    return _alone([(algorithm, ranks, *network) for algorithm in _ALGORITHMS for network in networks
                   for ranks in (1, 2, 3, 4, 7, 8, 9, 15, 16, 31, 1000, 1024)])  # fmt: skip


def _points() -> Runs:
    random, arguments = Random("points"), []
    for ranks, latency, bandwidth in ((2, 2e-5, 3e9), (5, 8e-4, 4e7), (12, 3e-6, 2e10), (7, 1e-4, 1e8)):
        middle = latency * bandwidth * ranks
        sizes = [round(middle * 2.0**power) for power in range(-3, 4)]
        random.shuffle(sizes)
        times = [2 * (ranks - 1) * (latency + size / ranks / bandwidth) * random.uniform(0.995, 1.005)
                 for size in sizes]  # fmt: skip
        arguments.append((ranks, tuple(sizes), tuple(times)))
    return _alone(arguments)


def _choices() -> Runs:
    return _alone(
        [*product((2, 3, 6, 8, 100, 4096), (0.001, 0.5, 7, 300, 20_000), (2, 50, 700), (2.5, 100, 1600))]
    )


# --- exercise 05 ---


def _streams() -> Runs:
    situations = ((2, 5, 3, "float64"), (6, 6, 1, "float64"), (7, 3, 2, "float32"), (3, 11, 2, "float64"),
                  (1, 1, 1, "float64"))  # fmt: skip
    return [[streaming._case(*situation)] for situation in situations]


def _steps(ranks: int) -> list[Case]:
    return [
        synchronizing._case(ranks, "K = 6", 6, 2, late_rank=0),
        synchronizing._case(ranks, "K = 1", 1, 3, of_norm=0.3),
        synchronizing._case(ranks, "K = 3", 3, 1, of_norm=1.6, dtype="float32"),
        synchronizing._case(ranks, "K = 2, frozen", 2, 1, of_norm=0.9, with_frozen=True),
    ]


def _token_steps(ranks: int) -> list[Case]:
    return [
        tokens._case(ranks, "K = 5", 5, range(1, 9), late_rank=ranks - 1),
        tokens._case(ranks, "K = 1", 1, (2, 7)),
        tokens._case(ranks, "K = 3", 3, (0, 0, 4), dtype="float32"),
    ]


def _in_fp32() -> Runs:
    return [[in_fp32._case(accumulated)] for accumulated in (2, 7, 16, 96)]


def _noise() -> Runs:
    random, arguments = Random("noise"), []
    for small_batch, big_batch in ((2, 3), (8, 64), (1, 1024), (10, 100)):
        for steps, gradient, trace in (
            (1, 0.2, 5.0),
            (3, 1.5, 0.4),
            (8, 0.0, 3.0),
            (5, 0.7, 0.0),
            (2, 0.01, 90.0),
        ):
            norms = [
                tuple(
                    round(max(0.0, gradient + trace / batch) * random.uniform(0.5, 1.5), 5)
                    for _ in range(steps)
                )
                for batch in (small_batch, big_batch)
            ]
            arguments.append((*norms, small_batch, big_batch))
    # Where one of the two estimates is exactly 0.
    arguments += [((1.0,), (0.5,), 1, 2), ((0.5,), (0.5,), 2, 4), ((0.25, 0.75), (0.5, 0.5), 4, 16)]
    return _alone(arguments)


# --- exercise 06 ---


def _fillings() -> Runs:
    random = Random("fillings")
    drawn = [
        (tuple(random.choice((1, 2, 4, 6, 9, 30)) for _ in range(count)), limit)
        for count in (1, 2, 5, 9, 24) for limit in (1, 4, 8, 13, 40, 500)
    ]  # fmt: skip
    return _alone(drawn)


def _collections() -> Runs:
    plain = collecting._plain
    return [[case] for case in (
        collecting._case("one step of three", (1, 3, 2), 40),
        collecting._case("buckets of one", (2, 2, 1), 1),
        collecting._case("two frozen", (2, 1, 3), 32, frozen=(0, 3)),
        collecting._case("another order", (2, 2, 1), 48, layers=plain(2, 4, 0, 1, 3)),
        collecting._case("checkpointed twice", (2, 2, 1), 72, dtype="float32",
                         layers=((1, True), (0, False), (2, False), (1, True), (3, False), (4, False))),
    )]  # fmt: skip


def _launches(ranks: int) -> list[Case]:
    plain = launching._plain
    return [
        launching._case(ranks, "K = 2, first", (2, 2, 1), 64, late_rank=0),
        launching._case(ranks, "K = 1, buckets of one", (4, 1, 2), 1),
        launching._case(ranks, "K = 3, two frozen", (2, 3, 1), 40, frozen=(0, 4)),
        launching._case(ranks, "K = 2, other orders", (3, 2, 1), 48,
                        layers=[plain(1, 0, 3, 2, 5, 4), plain(0, 1, 2, 3, 4, 5)]),
        launching._case(ranks, "K = 2, checkpointed", (2, 2, 2), 48, dtype="float32",
                        layers=[((0, False), (1, True), *plain(2, 3), (1, True), *plain(4, 5))]),
    ]  # fmt: skip


# --- exercise 07 ---


def _traces() -> Runs:
    random, arguments = Random("traces"), []

    def times(count: int, first: float, most: int) -> list[float]:
        return [first := first + random.randint(1, most) / 16 for _ in range(count)]

    for ranks, buckets in 4 * ((1, 1), (1, 4), (2, 3), (3, 5)):
        spans = []
        for rank in range(ranks):
            ends = times(buckets + 1, 0.0, 24)
            starts = [end + random.randint(0, 8) / 16 for end in ends[1:]]
            sent = [(start, start + random.randint(1, 20) / 16) for start in starts]
            last = max(end for _, end in sent)
            waits = [("wait", ends[-1], last)] if last > ends[-1] and random.random() < 0.6 else []
            if random.random() < 0.5:
                waits.append(("wait", ends[0], ends[0] + 1 / 16))
            spans += tracing._step(tracing._passes(*ends), tracing._buckets(*sent), waits, rank=rank)
        arguments += [(tuple(map(_as_tuple, spans)), rank) for rank in range(ranks)]
    return _alone(arguments)


def _as_tuple(span: Any) -> tuple:
    from dataclasses import astuple

    return astuple(span)


def _queues() -> Runs:
    random, arguments = Random("queues"), []
    for count in (1, 2, 3, 5, 8):
        for slow in (1, 8, 40):
            parameters = [*reversed(range(2 * count))]
            buckets = tuple(tuple(parameters[2 * i : 2 * i + 2]) for i in range(count))
            ready = tuple(random.randint(16, 96) / 16 for _ in parameters)
            seconds = tuple(random.randint(1, slow) / 16 for _ in buckets)
            arguments.append((buckets, ready, seconds, max(ready) + random.randint(0, 8) / 16))
    return _alone(arguments)


_GIVEN_MODELS: tuple[Model, ...] = (
    stepping.gpt(3, 256, 1000, 0.11), stepping.gpt(6, 1024, 128, 0.2, element_bytes=2),
    Model((4_000_000, 1_000_000, 2_500_000), (0.3, 0.22, 0.15), 0.3),
)  # fmt: skip
_NETWORKS = (Network(2, 5, 100), Network(6, 80, 8), Network(7, 700, 1.5), Network(300, 15, 50))


def _model_steps() -> Runs:
    return _alone([(tuple(model), tuple(network), megabytes, k) for model in _GIVEN_MODELS
                   for network in _NETWORKS for megabytes in (0.5, 3, 12, 400) for k in (1, 3)])  # fmt: skip


def _best_buckets() -> Runs:
    sizes = ((1, 3, 10, 50), (200, 20, 2), (7,))
    return _alone([(tuple(model), tuple(network), each, k) for model in _GIVEN_MODELS
                   for network in _NETWORKS for each in sizes for k in (1, 2)])  # fmt: skip


def _training_runs() -> Runs:
    sheet = (("fp32", 30e12), ("bf16", 210e12), ("fp16", 190e12))
    runs = [
        Run(rate, devices, parameters, layers, 16 * heads, heads, size, sequence, dtype, recomputed)
        for rate, devices, parameters in ((9_000, 3, 7.7e8), (1.2e6, 700, 3.1e10))
        for layers, heads, size, sequence in ((5, 7, 96, 300), (60, 40, 128, 8192))
        for dtype in ("bf16", "fp16", "fp8") for recomputed in (0.0, 0.3, 1.0)
    ]  # fmt: skip
    return _alone([(tuple(run), sheet) for run in runs])


def _bills() -> Runs:
    return _alone([
        (tokens, rate, devices, step, share * step)
        for tokens, rate in ((7e9, 900.0), (2e13, 4.4e6)) for devices in (1, 24, 5000)
        for step in (0.4, 31.0) for share in (0.0, 0.07, 1.0)
    ])  # fmt: skip


# --- exercise 08 ---


def _assembled(ranks: int) -> list[Case]:
    return [
        assembling._case(ranks, 2, range(1, 5), late_rank=0),
        assembling._case(ranks, 6, range(2, 4), of_norm=0.25),
        assembling._case(ranks, 1, range(3, 9), samples=(1, 4), of_norm=1.1),
    ]


def _resumed() -> Runs:
    situations = ((4, 2, (None,)), (10, 4, (9, None)), (7, 2, (2, 3, None)), (5, 10, (3, None)),
                  (3, 1, (None, None)), (9, 3, (7, 8, None)))  # fmt: skip
    return [[resuming._case(*situation, False)] for situation in situations]


def _clusters() -> Runs:
    random, arguments = Random("clusters"), []
    for ranks, latency, bandwidth in (
        (2, 1e-5, 2e9),
        (6, 3e-4, 1e9),
        (24, 5e-6, 4e10),
        (1, 1e-5, 1e9),
        (200, 5e-5, 1e10),
    ):
        for work in (predicting._small(1), predicting._large(3), predicting._going_on(predicting._small(4))):
            links = tuple(bandwidth * random.choice((1, 1, 0.6)) for _ in range(ranks))
            factors = tuple(round(random.uniform(0.95, 1.3), 3) for _ in range(ranks))
            arguments.append((tuple(work), tuple(Cluster(ranks, latency, links, factors))))
    return _alone(arguments)


def _configurations() -> Runs:
    random, arguments = Random("configurations"), []
    models = (Trained(1_100_000_000, 1024, 2_000_000_000, 300_000_000, 7.1e9),
              Trained(3_000_000_000, 4096, 6_000_000_000, 700_000_000, 2.2e10))  # fmt: skip
    cards = ((81_559, 989.4, 1978.9), (24_564, 165.2, 330.4), (196_592, 1307.4, 2614.9))
    for model, card, critical in product(models, cards, (1e5, 6e5, 1e7)):
        rows = tuple(_configuration(random, name) for name in "ABCDEF")
        arguments.append((rows, tuple(model), card, critical))
    for ranks, stage in product((8, 48), (1, 2)):  # where a byte for each parameter is more than what is left
        kept = {1: 4, 2: 2}[stage]
        needed = (kept + (16 - kept) / ranks) * 3e9 + 2 * 6e9
        for room in (needed * 1.001, needed * 0.999):
            rows = (("A", ranks, 2, 2, stage, False, 1.0), ("B", 8, 1, 1, 3, True, 5.0))
            arguments.append((rows, tuple(models[1]), (int(room / 2**20), 400.0, 800.0), 1e9))
    return _alone(arguments)


def _configuration(random: Random, name: str) -> tuple:
    ranks, micro_batches, batch = (
        random.choice((1, 2, 8, 48)),
        random.choice((1, 3, 8)),
        random.choice((1, 2, 6)),
    )
    work = micro_batches * batch * random.uniform(0.05, 0.5)
    return name, ranks, micro_batches, batch, random.randrange(4), random.random() < 0.4, round(work, 3)


def _intervals() -> Runs:
    return _alone(
        [*product((2.0, 45.0, 300.0), (100.0, 9_000.0, 80_000.0), (1, 12, 20_000), (0.23, 7.1, 903.0))]
    )


def _own(part: Any) -> Runs:
    """A question has no other inputs than itself."""
    return [[case] for case in part.draw(1)]


def runs(exercise: str, check_cell: str) -> Runs:
    """The runs that tell a mutant from the solution; exercise is its number, such as "03"."""
    return _RUNS[exercise, check_cell]()


def allowed(exercise: str, check_cell: str) -> float:
    """How far numbers may be off, relative: less than what the exercise itself allows."""
    roughly = {("04", "check_fit_ring"), ("08", "check_step_seconds")}  # 4% and 3% there
    return 0.01 if (exercise, check_cell) in roughly else 1e-9


def _named() -> Iterator[tuple[str, dict[str, Callable[[], Runs]]]]:
    exchange = lambda: _on_ranks(_messages(2))  # noqa: E731
    ring = lambda: _on_ranks(_sums)  # noqa: E731
    yield "00", {
        "neighbors": _neighbors, "pass_right": lambda: _on_ranks(_messages(1)), "exchange": exchange,
        "ready_for_nccl": exchange,
    }  # fmt: skip
    yield "01", {
        "parameter_bytes": _modules, "model_state": _recipes, "read_data_sheet": _data_sheets,
        "most_layers": _layers, "frees_most": _changes,
    }  # fmt: skip
    yield "02", {
        "broadcast": lambda: _on_ranks(_broadcasts), "average": lambda: _on_ranks(_averages), "star": ring,
    }  # fmt: skip
    yield "03", {
        "chunk_to_send": lambda: _alone([(ranks,) for ranks in (6, 9, 12, 1)]),
        "reduce_scatter": lambda: _on_ranks(_rows(halves._summed_on_diagonal)),
        "all_gather": lambda: _on_ranks(_rows(halves._chunks_of_all)), "ring": ring, "ready_for_nccl": ring,
    }  # fmt: skip
    yield "04", {
        "sent_bytes": _bytes_sent, "busiest_direction": _busiest, "predicted_seconds": _seconds,
        "fit_ring": _points, "choose": _choices,
    }  # fmt: skip
    yield "05", {
        "train": _streams, "train_step": lambda: _on_ranks(_steps, (1, 2, 6)),
        "train_step_by_tokens": lambda: _on_ranks(_token_steps, (1, 2, 6)), "gradients_in_fp32": _in_fp32,
        "noise_scale": _noise,
    }  # fmt: skip
    yield "06", {
        "on_paper": lambda: _own(paper.ON_PAPER), "fill_buckets": _fillings, "collect": _collections,
        "train": lambda: _on_ranks(_launches, (1, 2, 6)), "causes": lambda: _own(diagnosis.CAUSES),
    }  # fmt: skip
    yield "07", {
        "hidden_and_exposed": _traces, "bucket_times": _queues, "step_seconds": _model_steps,
        "best_bucket": _best_buckets, "mfu_and_hfu": _training_runs, "exposed_gpu_hours": _bills,
    }  # fmt: skip
    yield "08", {
        "train": lambda: _on_ranks(_assembled, (1, 2, 6)), "run": _resumed, "step_seconds": _clusters,
        "best": _configurations, "checkpoint_every": _intervals,
    }  # fmt: skip


_RUNS = {(exercise, f"check_{part}"): make for exercise, parts in _named() for part, make in parts.items()}
