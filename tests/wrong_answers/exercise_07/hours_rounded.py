"""To whole hours."""

PART = "exposed_gpu_hours"
SENTENCE = "This is right in its first digits only"


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 3600
    return round(hours * devices * exposed_seconds / step_seconds, 1)
