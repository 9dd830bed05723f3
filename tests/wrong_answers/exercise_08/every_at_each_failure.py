"""As often as it fails."""

import math

PART = "checkpoint_every"
SENTENCE = "This is the time between two failures itself"


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = failure_hours * 3600 / gpus
    steps = max(1, math.floor(between / step_seconds))
    interval = steps * step_seconds
    return steps, write_seconds / interval + interval / (2 * between)
