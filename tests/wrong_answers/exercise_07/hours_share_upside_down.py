"""Step over exposed."""

PART = "exposed_gpu_hours"
SENTENCE = "The share is upside down"


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 3600 * devices
    return hours * step_seconds / exposed_seconds if exposed_seconds else 0.0
