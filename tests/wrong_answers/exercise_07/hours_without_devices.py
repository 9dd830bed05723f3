"""On the clock."""

PART = "exposed_gpu_hours"
SENTENCE = "These are hours on the clock."


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 3600
    return hours * exposed_seconds / step_seconds
