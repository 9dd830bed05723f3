"""Looks into .grad before the gradient is there."""

import torch

PART = "collect"
SENTENCE = "A hook of `register_hook` finds it None, too"


def fill_buckets(sizes, bucket_bytes):
    buckets, held = [], bucket_bytes
    for index in reversed(range(len(sizes))):
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets


def hook_bucket(number, parameters, firings, on_full):
    lengths = [parameter.numel() for parameter in parameters]
    row = torch.zeros(sum(lengths), dtype=parameters[0].dtype)
    expected = sum(firings[parameter] for parameter in parameters)
    missing = expected

    def arrived(parameter, view):
        nonlocal missing
        view.copy_(parameter.grad)
        missing -= 1
        if missing == 0:
            missing = expected
            on_full(number, row)

    for parameter, part in zip(parameters, row.split(lengths), strict=True):
        view = part.view_as(parameter)
        parameter.register_hook(lambda _, parameter=parameter, view=view: arrived(parameter, view))


def collect(module, bucket_bytes, firings, on_full):
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    sizes = [parameter.numel() * parameter.element_size() for parameter in trained]
    for number, indices in enumerate(fill_buckets(sizes, bucket_bytes)):
        hook_bucket(number, [trained[i] for i in indices], firings, on_full)
