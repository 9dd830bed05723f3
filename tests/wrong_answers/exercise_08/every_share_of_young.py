"""The share of Young's interval."""

import math

PART = "checkpoint_every"
SENTENCE = "The share is that of Young's interval"


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = failure_hours * 3600 / gpus
    steps = max(1, math.floor(math.sqrt(2 * write_seconds * between) / step_seconds))
    interval = math.sqrt(2 * write_seconds * between)
    return steps, write_seconds / interval + interval / (2 * between)
