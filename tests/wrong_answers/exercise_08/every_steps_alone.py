"""Only the steps."""

import math

PART = "checkpoint_every"
SENTENCE = "Two numbers are expected"


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = failure_hours * 3600 / gpus
    steps = max(1, math.floor(math.sqrt(2 * write_seconds * between) / step_seconds))
    return steps
