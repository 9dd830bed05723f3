"""What is not lost."""

import math

PART = "checkpoint_every"
SENTENCE = "This is what is left"


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = failure_hours * 3600 / gpus
    steps = max(1, math.floor(math.sqrt(2 * write_seconds * between) / step_seconds))
    interval = steps * step_seconds
    return steps, 1 - write_seconds / interval - interval / (2 * between)
