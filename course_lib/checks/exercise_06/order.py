"""What is wrong with the order in which a rank's buckets were sent, where the numbers may be right.

Plain data: ``watching`` notes it in the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AllReduce:
    """One all-reduce of a step; ``started_at`` and ``waited_at``: after how many hooks of the step.

    ``waited_at`` is None if nobody waited.  ``touched`` is what was done to its memory before that: "read",
    "written" or "".
    """

    bytes: int
    started_at: int
    waited_at: int | None = None
    touched: str = ""
    of_weights: bool = False
    under_way_at_step: bool = False


@dataclass(frozen=True)
class Plan:
    """What a step should do: bytes of the buckets, and after how many hooks of a pass each is full."""

    ranks: int
    micro_batches: int
    sizes: tuple[int, ...]  # of the parameters
    buckets: tuple[int, ...]
    full_after: tuple[int, ...]
    hooks: int  # of a backward pass


WEIGHTS = "weights"
STEPPED, READ, WRITTEN, EARLY = "stepped too early", "read", "written", "early"
EACH_PARAMETER, EACH_TIME, NEVER, LATER_NEVER = "each parameter", "each time", "never", "later never"
EARLIER_MICRO_BATCH, BY_ONE = "earlier micro-batch", "by one"
LAST_MISSING, OTHER_NUMBER, OTHER_SIZES = "last missing", "other number", "other sizes"
OUT_OF_TURN, PUT_ASIDE, LATE = "out of turn", "put aside", "late"
AFTERWARDS, IN_HOOK, NOT_WAITED = "afterwards", "in hook", "not waited"
Fault = tuple[str, str]  # one of these, and what was seen
RIGHT: Fault = ("", "")
_SPARE = 64  # bytes of a bucket beside its gradients


def fault(steps: Sequence[Sequence[AllReduce]], plan: Plan) -> Fault:
    """The first fault of the first step that has one."""
    if plan.ranks == 1 and not any(steps):
        return RIGHT
    for number, step in enumerate(steps, start=1):
        kind, seen = _fault(step, plan)
        if kind:
            kind = LATER_NEVER if kind == NEVER and number > 1 else kind
            return kind, f"step {number}: {seen}"
    return RIGHT


def _fault(step: Sequence[AllReduce], plan: Plan) -> Fault:
    """What is done too early is the cause of what is then done to the memory."""
    too_early = _too_early(step, plan) if len(step) == len(plan.buckets) else None
    other = _fault_in_memory(step) or _fault_in_number(step, plan) or _fault_in_time(step, plan)
    return too_early or other or RIGHT


def _too_early(step: Sequence[AllReduce], plan: Plan) -> Fault | None:
    before, full_after = (plan.micro_batches - 1) * plan.hooks, plan.full_after
    if any(each.of_weights for each in step):
        return None
    if _out_of_turn(step, plan):
        return OUT_OF_TURN, _other_sizes(step, plan)
    hooks_too_soon = [full + before - each.started_at for each, full in zip(step, full_after, strict=True)]
    if set(hooks_too_soon) == {1}:
        return BY_ONE, f"all-reduce 1 of {len(step)} starts one hook before its gradients are in .grad"
    for index, (each, too_soon) in enumerate(zip(step, hooks_too_soon, strict=True), start=1):
        name = f"all-reduce {index} of {len(step)}"
        if each.started_at <= before and plan.micro_batches > 1:
            return EARLIER_MICRO_BATCH, f"{name} starts before the last micro-batch"
        if too_soon > 0:
            return EARLY, f"{name} starts {too_soon} hook{'' if too_soon == 1 else 's'} before it is full"
    return None


def _out_of_turn(step: Sequence[AllReduce], plan: Plan) -> bool:
    """Whether the right buckets start when they are full, and not in the order of their numbers."""
    before = (plan.micro_batches - 1) * plan.hooks
    by_fullness = sorted(zip(plan.full_after, plan.buckets, strict=True))
    in_turn = by_fullness == [*zip(plan.full_after, plan.buckets, strict=True)]
    return not in_turn and by_fullness == [(each.started_at - before, each.bytes) for each in step]


def _fault_in_memory(step: Sequence[AllReduce]) -> Fault | None:
    for index, each in enumerate(step, start=1):
        name = f"all-reduce {index} of {len(step)}"
        if each.of_weights:
            return WEIGHTS, f"{name} sums weights"
        if each.touched == "written":
            return WRITTEN, f"something is put into the memory of {name} while it is under way"
        if each.under_way_at_step:
            return STEPPED, f"the optimizer steps while {name} is under way"
        if each.touched:
            return READ, f"the memory of {name} is used while it is under way"
        if each.waited_at is None:
            return NOT_WAITED, f"nobody waits for {name}"
    return None


def _fault_in_number(step: Sequence[AllReduce], plan: Plan) -> Fault | None:
    got, needed, K = len(step), len(plan.buckets), plan.micro_batches
    seen = f"{got} all-reduces, where there are {needed} buckets (K = {K})"
    if got == 0:
        return NEVER, "no all-reduce"
    if K > 1 and step[0].started_at <= (K - 1) * plan.hooks and got > needed:
        return EACH_TIME, seen
    if got > needed and sorted(each.bytes for each in step) == sorted(plan.sizes):
        return EACH_PARAMETER, f"{got} all-reduces for {len(plan.sizes)} parameters in {needed} buckets"
    if got == needed - 1:
        return LAST_MISSING, seen
    if got != needed:
        return OTHER_NUMBER, seen
    sizes = [each.bytes for each in step]
    if all(0 <= size - bucket <= _SPARE for size, bucket in zip(sizes, plan.buckets, strict=True)):
        return None
    return OTHER_SIZES, _other_sizes(step, plan)


def _other_sizes(step: Sequence[AllReduce], plan: Plan) -> str:
    sizes = _listed([each.bytes for each in step])
    return f"all-reduces of {sizes} bytes, for buckets of {_listed(plan.buckets)}"


def _fault_in_time(step: Sequence[AllReduce], plan: Plan) -> Fault | None:
    before = (plan.micro_batches - 1) * plan.hooks
    end, may_start = before + plan.hooks, 0
    hooks = f"of the {plan.hooks} hooks of the {'last ' if before else ''}backward pass"
    for index, (each, full) in enumerate(zip(step, plan.full_after, strict=True), start=1):
        name, is_put_aside = f"all-reduce {index} of {len(step)}", before + full < may_start
        may_start = max(may_start, before + full)
        if each.started_at > may_start:
            kind = PUT_ASIDE if is_put_aside else AFTERWARDS if each.started_at == end else LATE
            started_at, could_start_at = each.started_at - before, may_start - before
            return kind, f"{name} starts after {started_at} {hooks}, and could after {could_start_at}"
        if each.waited_at is not None and each.waited_at < end:
            return IN_HOOK, f"{name} is waited for after {each.waited_at - before} {hooks}"
    return None


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
