"""Why survivors survive: what makes these mutants give what the solution gives."""

from __future__ import annotations

import re
from collections.abc import Sequence

# The answer's cell ("": any), a pattern for "operator: before => after", and the reason: the first that fits.
_REASONS: Sequence[tuple[str, str, str]] = (
    # --- exercises 00, 02 and 03: messages ---
    ("", r"=> for handle in reversed", "All messages are posted already: the order of the waits is open."),
    ("", r"right == dist.get_rank", "Who is its own right neighbor is its own left one, too."),
    ("exchange", r"empty_like", "Both messages have the same shape and type."),
    ("", r"elements swapped: .*P2POp", "All are posted in one call, and each direction keeps its order."),
    ("", r"<= 0", "No rank is below 0."),
    ("broadcast", r"for other in reversed|in reversed\(list\(tensors", "All ranks keep to the other order."),
    ("star", r"for other in reversed", "Which rank's turn is first is open; all get the same sum."),
    ("average", r"block = gradient$", "The product is a tensor of its own, whose numbers lie in one piece."),
    # --- exercise 04 ---
    ("sent_bytes", r">= 'unchunked-ring'", "Of the three names, no other one is as late in the alphabet."),
    ("busiest_direction", r"range\(0 - 1", "Rank -1 is counted as the root is, or as the last rank."),
    ("predicted_seconds", r"<= 2 \*\* lg", "The logarithm is rounded down, so 2**lg is never above N."),
    ("fit_ring", r"// slope", "Off by less than a byte a second; 4% are allowed."),
    ("fit_ring", r"// ranks", "Off by less than a byte of thousands; 4% are allowed."),
    ("choose", r"elements swapped", "The order of the names counts between equals only, and none are."),
    ("", r"1000000000.0 // 8", "The bytes of these bandwidths are whole numbers."),
    # --- exercises 05, 06 and 08: training ---
    ("noise_scale", r"noise_trace > 0",
     "Noise of exactly 0 is never measured, and right answers differ there: the check leaves it open."),
    ("", r"loss_function\(targets, module", "The squared error is the same the other way round."),
    ("", r"after parameter.grad /= dist", "The mean is the same, whether parts are divided or their sum."),
    ("", r"in reversed\(list\((group|micro_batches|zip\()", "A sum has no order, but for rounding."),
    ("", r"in reversed\(list\(module.parameters", "All ranks keep to the other order."),
    ("collect", r"=> if True", "What is copied onto itself stays as it is."),
    ("collect", r"<= 0", "It counts down by ones, and stops at 0."),
    ("collect", r"parameters\[-1\].dtype", "All parameters have the same type."),
    ("collect", r"in reversed", "In which order hooks are registered says nothing of when they fire."),
    ("train", r"is_last = (False|True)", "It is set before each backward pass, and read in it only."),
    ("train", r"k >= len", "No micro-batch comes after the last one."),
    ("train", r"in it finish", "Until the last micro-batch nothing is started, nor to finish."),
    ("train", r"in reversed\(list\(started", "All are started: the order of the waits is open."),
    ("train", r"in it full.clear", "Nothing reads it before the next step."),
    ("run", r"every <= 0", "A remainder is never below 0."),
    ("run", r"step >= last", "No step comes after the last one."),
    ("step_seconds", r"// n ", "Off by less than a byte."),
    ("step_seconds", r"free = -1.0", "Buckets are complete after second 0, so the network is free by then."),
    ("step_seconds", r"in it computed", "It is the same in each turn."),
    ("train", r"append\(step_loss\)", "A tensor with one number is taken for the number."),
    ("train", r"step_loss \+= loss$", "The backward pass has let go of the activations by then."),
    ("train", r"tensor\(sum\(", "Whole numbers of samples divide as floats do."),
    ("checkpoint_every", r"// step_seconds", "Rounded down twice is rounded down."),
    ("train", r"zeros\(\(\)\)", "The loss is summed in float32, and right to 7 digits: it is allowed."),
    ("train", r"in reversed\(list\(optimizer", "Each group gets the same learning rate."),
    ("train", r"in it micro_batches", "The same micro-batches, once for each group."),
    # --- exercise 07 ---
    ("hidden_and_exposed", r"\[1:\]|\[:-1\]",
     "A step begins with the forward pass and ends with the optimizer: nothing is under way there."),
    ("hidden_and_exposed", r"in reversed|elements swapped", "A sum, and a set, have no order."),
    ("bucket_times", r"\[\], -1.0", "Gradients are complete after second 0, so the network is free by then."),
    ("", r"arguments swapped: .*max\(", "The larger of two is the same in either order."),
    # --- of all ---
    ("", r"return None => return$", "Python returns None in both."),
    ("", r"strict", "`strict` guards against lists of unequal lengths, and these are equally long."),
    ("", r"statements swapped", "Neither of the two needs what the other one does."),
)  # fmt: skip


def reason(answer: str, operator: str, before: str, after: str) -> str:
    """Why this mutant is no mistake; "" if nobody has said."""
    change = f"{operator}: {before} => {after}"
    return next((why for cell, pattern, why in _REASONS
                 if cell in (answer, "") and re.search(pattern, change)), "")  # fmt: skip
