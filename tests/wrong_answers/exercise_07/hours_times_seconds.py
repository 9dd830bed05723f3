"""No share."""

PART = "exposed_gpu_hours"
SENTENCE = "The exposed seconds of one step are multiplied by all hours."


def exposed_gpu_hours(tokens, tokens_per_second, devices, step_seconds, exposed_seconds):
    hours = tokens / tokens_per_second / 3600 * devices
    return hours * exposed_seconds
