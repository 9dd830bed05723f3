"""A default argument is made once, and stays from call to call."""

PART = "parameter_bytes"
SENTENCE = "Only the first call is right, and a second one with the same arguments is not:"


def parameter_bytes(module, seen=[]):  # noqa: B006
    for parameter in module.parameters():
        seen.append(parameter.numel() * parameter.element_size())
    return sum(seen)
