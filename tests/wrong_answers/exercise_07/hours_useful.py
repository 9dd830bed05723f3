"""The others."""

PART = "exposed_gpu_hours"
SENTENCE = "These are the hours in which nothing is exposed"


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 3600 * devices
    return hours * (step_seconds - exposed_seconds) / step_seconds
