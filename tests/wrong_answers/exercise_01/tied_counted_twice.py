"""Pitfall 21: every name is counted, and a tied weight has two."""

PART = "parameter_bytes"
SENTENCE = "A tied weight is counted twice:"


def parameter_bytes(module):
    named = module.named_parameters(remove_duplicate=False)
    return sum(parameter.numel() * parameter.element_size() for _, parameter in named)
