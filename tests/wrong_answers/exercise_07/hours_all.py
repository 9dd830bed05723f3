"""The whole run."""

PART = "exposed_gpu_hours"
SENTENCE = "These are the GPU-hours of the whole run"


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 3600 * devices
    return hours
