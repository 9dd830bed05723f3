"""GPU-minutes."""

PART = "exposed_gpu_hours"
SENTENCE = "These are GPU-minutes"


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 60 * devices
    return hours * exposed_seconds / step_seconds
