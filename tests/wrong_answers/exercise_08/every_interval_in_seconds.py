"""Seconds for steps."""

import math

PART = "checkpoint_every"
SENTENCE = "This is the interval in seconds"


def checkpoint_every(write_seconds, failure_hours, gpus, step_seconds):
    between = failure_hours * 3600 / gpus
    young = math.sqrt(2 * write_seconds * between)
    interval = max(1, math.floor(young / step_seconds)) * step_seconds
    return math.floor(young), write_seconds / interval + interval / (2 * between)
