"""All devices' tokens taken for those of each."""

PART = "exposed_gpu_hours"
SENTENCE = "The tokens per second are those of all devices together already."


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / (tokens_per_second * devices) / 3600
    return hours * exposed_seconds / step_seconds
