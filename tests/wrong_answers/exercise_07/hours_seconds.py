"""GPU-seconds."""

PART = "exposed_gpu_hours"
SENTENCE = "These are GPU-seconds"


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second * devices
    return hours * exposed_seconds / step_seconds
