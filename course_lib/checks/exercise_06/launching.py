"""Part 4: buckets that leave while the backward pass goes on, in the same order on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from course_lib.checks import mistakes
from course_lib.checks.exercise_05 import results
from course_lib.checks.exercise_05.results import as_if
from course_lib.checks.exercise_05.simulated import Trained
from course_lib.checks.exercise_06 import order, problem
from course_lib.checks.exercise_06.errors import OTHER_ORDER, OUT_OF_TURN, in_error
from course_lib.checks.exercise_06.problem import Row
from course_lib.checks.part import Case, Compared, Part

_SIX = ((2, 3), (4,), (3,), (2, 2), (5,), (1,))
_ORDERS = ((0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (3, 4, 5, 0, 1, 2))


def _draw(ranks: int) -> list[Case]:
    return [
        _case(ranks, "K = 1", (3, 1, 2), 48, late_rank=ranks - 1),
        _case(ranks, "K = 3", (2, 3, 2), 48, late_rank=0),
        _case(ranks, "K = 2, a frozen parameter, float32", (2, 2, 2), 24, frozen=(3,), dtype="float32"),
        _case(
            ranks, "K = 2, the last weight also in the first layer", (2, 2, 2), 56,
            layers=[_plain(5, 0, 1, 2, 3, 4, 5)],
        ),
        _case(
            ranks, "K = 2, a shared weight, one use checkpointed: its hook fires twice", (2, 2, 2), 56,
            layers=[((0, False), (2, True), (1, False), (3, False), (4, False), (2, False), (5, False))],
        ),
        _case(
            ranks, "K = 2, bucket 1 is full before bucket 0", (2, 2, 2), 40,
            layers=[_plain(0, 1, 4, 5, 2, 3)],
        ),
        _case(ranks, f"{OTHER_ORDER}, K = 2", (2, 2, 1), 40, layers=[_plain(*each) for each in _ORDERS]),
        _case(ranks, "K = 2, one bucket for all", (2, 2, 1), 1000),
        _case(ranks, "K = 4, many buckets", (3, 4, 1), 8, secret=True),
    ]  # fmt: skip


def _plain(*numbers: int) -> tuple[tuple[int, bool], ...]:
    return tuple((number, False) for number in numbers)


def _case(
    ranks: int, title: str, several: tuple[int, int, int], bucket_bytes: int,
    layers: Sequence[tuple | None] = (None,), late_rank: int | None = None, secret: bool = False, **more,
) -> Case:  # fmt: skip
    arguments = [
        problem.arguments(title, rank, _SIX, several, bucket_bytes, layers[rank % len(layers)], **more)
        for rank in range(ranks)
    ]
    dtype = more.get("dtype", "float64")
    expected = tuple(
        (tuple(results.tensor(dtype, row) for row in used), results.tensor(dtype, weights), order.RIGHT)
        for used, weights in _trained(_averaged)(arguments)
    )
    return Case(
        title, tuple(arguments), expected, late_rank, secret,
        tolerance=1e-9 if dtype == "float64" else 1e-4, same_on_all_ranks=True,
    )  # fmt: skip


# --- gradients, right and wrong ---

Step = Sequence[Sequence[Row]]  # the gradients of all trained weights: of each rank's micro-batches
Way = Callable[[Step], list[Row]]  # with which each rank's optimizer steps


def _trained(
    way: Way, clears: bool = True, later: Way | None = None
) -> Callable[[Sequence[tuple]], list[Trained]]:
    """What each rank has when the gradients of each step are brought together in this way.

    ``later``: in all steps after the first.
    """

    def compute(arguments: Sequence[tuple]) -> list[Trained]:
        micro = [[[*map(_flat, step)] for step in problem.gradients(of_rank)] for of_rank in arguments]
        first, *others = zip(*micro, strict=True)
        used = [way(first), *map(later or way, others)]  # used[step][rank]
        if not clears:
            used = [[_sum(of_rank) for of_rank in zip(*used[: i + 1], strict=True)] for i in range(len(used))]
        of_ranks = [list(of_rank) for of_rank in zip(*used, strict=True)]
        return [
            (rows, _stepped(of_rank, rows)) for of_rank, rows in zip(arguments, of_ranks, strict=True)
        ]

    return compute


def _stepped(arguments: tuple, rows: Sequence[Row]) -> Row:
    weights = _flat([arguments[problem.WEIGHTS][number].numbers for number in problem.trained(arguments)])
    return _sum([weights, *(_times(-arguments[problem.RATE], row) for row in rows)])


def _flat(rows: Sequence[Sequence[float]]) -> Row:
    return [*chain(*rows)]


def _sum(rows: Sequence[Row]) -> Row:
    return [sum(column) for column in zip(*rows, strict=True)]


def _times(factor: float, row: Row) -> Row:
    return [factor * number for number in row]


def _averaged(step: Step) -> list[Row]:
    return _divided_by(lambda ranks, micro_batches: ranks * micro_batches)(step)


def _divided_by(divisor: Callable[[int, int], float]) -> Way:
    """The sum over ranks and micro-batches, divided."""

    def way(step: Step) -> list[Row]:
        total = _sum([_sum(of_rank) for of_rank in step])
        return [_times(1 / divisor(len(step), len(step[0])), total)] * len(step)

    return way


def _own(step: Step) -> list[Row]:
    return [_times(1 / len(of_rank), _sum(of_rank)) for of_rank in step]


def _mean_added(step: Step) -> list[Row]:
    return [_sum(rows) for rows in zip(_own(step), _averaged(step), strict=True)]


def _largest(step: Step) -> list[Row]:
    return [[max(column) for column in zip(*_own(step), strict=True)]] * len(step)


def _largest_divided(step: Step) -> list[Row]:
    return [_times(1 / len(step), row) for row in _largest(step)]


def _only_the_last_divided(arguments: Sequence[tuple]) -> list[Trained]:
    """The mean in the last bucket, the sum over the ranks in all others."""
    *_, last = problem.filled(arguments[0])
    is_last = [
        place in last
        for place, number in enumerate(problem.trained(arguments[0]))
        for _ in arguments[0][problem.WEIGHTS][number].numbers
    ]

    def mixed(mean: Row, total: Row) -> Row:
        return [one if divided else other for divided, one, other in zip(is_last, mean, total, strict=True)]

    both = (_trained(way)(arguments) for way in (_averaged, _divided_by(lambda N, K: K)))
    return [
        ([*map(mixed, means, totals)], mixed(weights, of_totals))
        for (means, weights), (totals, of_totals) in zip(*both, strict=True)
    ]


# --- what mistakes look like ---

_SENTENCES = {
    order.WEIGHTS: (
        "Weights go over the network here. A post-accumulate hook gets the *parameter*; the gradient is in "
        "its `.grad`."
    ),
    order.STEPPED: (
        "The optimizer steps while an all-reduce is still under way, with whatever is in the memory by then. "
        "All of them are to be waited for before the step, in `finish`."
    ),
    order.READ: (
        "A row is used before its all-reduce has been waited for. Until `wait()` returns, its memory is not "
        "yours, and what you read there may be anything: divide, and hand out gradients, afterwards."
    ),
    order.WRITTEN: (
        "Something is put into a row whose all-reduce has already started. What comes too late is lost, or "
        "spoils the sum: a bucket starts when the last of its gradients is in it."
    ),
    order.NOT_WAITED: "Nobody waits for an all-reduce: the mean is not there before `wait()` has returned.",
    order.NEVER: (
        "No all-reduce of a bucket has started: each rank steps with its own gradients, or others move them. "
        "`dist.all_reduce(row, async_op=True)` is to do it."
    ),
    order.LATER_NEVER: (
        "After the first step no bucket starts any more: what has to begin anew with each step? The counts, "
        "and the number of the bucket whose turn it is."
    ),
    order.EACH_TIME: (
        "Buckets are sent after each micro-batch, K times as often as is needed. `.grad` adds up on its "
        "rank: the last micro-batch's backward pass is the one to send it."
    ),
    order.EARLIER_MICRO_BATCH: (
        "A bucket is sent before the last micro-batch: what comes after that stays on its rank. The last "
        "one's backward pass is the one to send it."
    ),
    order.EACH_PARAMETER: (
        "Each parameter has an all-reduce of its own: right, and a latency for each. A bucket is sent as one "
        "row."
    ),
    order.LAST_MISSING: (
        "The gradients of one bucket are never sent. Is it the last one, which nobody fills up to its limit?"
    ),
    order.OTHER_NUMBER: "There is to be one all-reduce for each bucket in a step, and nothing else.",
    order.OTHER_SIZES: (
        "What is sent are not the buckets of `fill_buckets`, in their order: one row for each, with the "
        "gradients of its parameters and no others."
    ),
    order.EARLY: (
        "A bucket starts before it has all of its gradients. A hook may fire more than once in a backward "
        "pass, at first with a part of the gradient: `firings` says how often."
    ),
    order.BY_ONE: (
        "A bucket starts before its last gradient is in `.grad`. The hook of `register_hook` runs too soon, "
        "and what it gets is the part of this micro-batch alone; a post-accumulate hook runs when all is "
        "there."
    ),
    order.OUT_OF_TURN: OUT_OF_TURN,
    order.PUT_ASIDE: (
        "The numbers are right, but a bucket that was full before its turn starts later than it could. When "
        "the one before it starts, its turn has come: the same hook can start both, and more than two."
    ),
    order.LATE: (
        "The numbers are right, but a bucket starts later than it could, and so less is hidden. The hook "
        "that fills it is the one to start it, if it is its turn."
    ),
    order.AFTERWARDS: (
        "The numbers are right, but nothing is hidden: buckets that were full long before wait for the end "
        "of the backward pass. The hook that fills a bucket is the one to start it, if it is its turn."
    ),
    order.IN_HOOK: (
        "The numbers are right, but nothing is hidden: a hook waits for the all-reduce, and so the backward "
        "pass stands still for as long as the network takes. Hooks start; only `finish` waits."
    ),
}  # fmt: skip


_IF_WAITED_FOR = (order.EARLY, order.NEVER, order.LAST_MISSING, order.OTHER_NUMBER, order.OTHER_SIZES)


def _steps_each(wrong: Compared) -> str | None:
    steps, micro_batches, *_ = wrong.case.arguments[0][problem.INPUTS].shape
    if micro_batches > 1 and len(wrong.got(0)[0]) == steps * micro_batches:
        return (
            "The optimizer steps after each micro-batch. It is to step once for each of `batches`, when all "
            "of its micro-batches have added up in `.grad` and the buckets are averaged."
        )
    return None


def _fault(wrong: Compared) -> str | None:
    """Whatever the numbers are, of the first rank that did something out of order."""
    kinds = (wrong.got(rank)[2][0] for rank in range(wrong.ranks))
    kind = next(filter(None, kinds), "")
    if kind in _IF_WAITED_FOR and wrong.case.arguments[0][problem.FROZEN]:
        return (
            "A frozen parameter has no gradient, and so no place in a bucket: what waits for it is never "
            "full."
        )
    return _SENTENCES.get(kind)


def _fault_in_words(fault: order.Fault) -> str:
    return fault[1] or "each bucket sent once, while others are computed, and waited for at the end"


def _in_words(wrong: Compared, rank: int) -> tuple[str, str] | None:
    """A fault first: numbers may then be other ones each time."""
    if not results.unreadable(wrong) and (fault := wrong.got(rank)[2]) != order.RIGHT:
        return _fault_in_words(order.RIGHT), _fault_in_words(fault)
    return results.in_words(wrong, rank, _fault_in_words)


TRAIN = Part(
    "train(module, batches, loss_function, optimizer, bucket_bytes, firings)",
    _draw,
    (
        results.unreadable,
        results.never_stepped,
        _steps_each,
        _fault,
        results.no_gradient,
        *as_if(
            "Gradients are summed over the ranks, and nobody divides by N: they are N times too large.",
            _trained(_divided_by(lambda N, K: K)),
        ),
        *as_if(
            "The last bucket is right, and in all others nobody divides by N: is the division inside of the "
            "loop over the rows?",
            _only_the_last_divided,
        ),
        *as_if(
            "The mean is added to the rank's own gradient: it is to take its place, as by `copy_`.",
            _trained(_mean_added),
        ),
        *as_if(
            "Each number is the largest one of all ranks: the sum is asked for, which `dist.all_reduce` "
            "makes if it is given no `op`.",
            _trained(_largest),
            _trained(_largest_divided),
        ),
        *as_if(
            "This is divided by N twice, as in the loss and once more after the sum: once makes a mean of "
            "it.",
            _trained(_divided_by(lambda N, K: N * N * K)),
        ),
        *as_if(
            "The gradient is K times too large: `.grad` adds up, so it holds the sum over the micro-batches.",
            _trained(_divided_by(lambda N, K: N)),
        ),
        *as_if(
            "Nothing is divided: this is the sum over all ranks and micro-batches, and the mean is asked "
            "for.",
            _trained(_divided_by(lambda N, K: 1)),
        ),
        *as_if(
            "This is divided by K twice: once makes a mean of the sum.",
            _trained(_divided_by(lambda N, K: N * K * K)),
        ),
        *as_if(
            "The first step is right, and later ones have each rank's own gradients: `.grad` was set to "
            "None, and since then the backward pass puts new tensors into it, which do not lie in your rows.",
            _trained(_averaged, later=_own),
        ),
        *as_if(
            "The optimizer steps with each rank's own gradient. The mean has to be in `.grad` itself, and "
            "before the step.",
            _trained(_own),
        ),
        *as_if(
            "The first step is right, and each later one also has the gradients of the steps before it in "
            "it: who clears `.grad`?",
            _trained(_averaged, clears=False),
        ),
        mistakes.ranks_apart,
    ),
    in_error,
    world_sizes=(1, 2, 3),
    in_words=_in_words,
)
