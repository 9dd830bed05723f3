"""Printed."""

PART = "exposed_gpu_hours"
SENTENCE = "The function returns None: it needs a `return`."


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 3600 * devices
    print(hours)
