"""An hour of 60 seconds."""

import math

PART = "checkpoint_every"
SENTENCE = "An hour has 3,600 seconds"


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = failure_hours * 60 / gpus
    steps = max(1, math.floor(math.sqrt(2 * write_seconds * between) / step_seconds))
    interval = steps * step_seconds
    return steps, write_seconds / interval + interval / (2 * between)
