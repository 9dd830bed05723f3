"""Without the 2."""

import math

PART = "checkpoint_every"
SENTENCE = "The 2 of Young's formula is missing"


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = failure_hours * 3600 / gpus
    steps = max(1, math.floor(math.sqrt(write_seconds * between) / step_seconds))
    interval = steps * step_seconds
    return steps, write_seconds / interval + interval / (2 * between)
