"""Full again with every hook."""

import torch

PART = "collect"
SENTENCE = "every hook of a bucket finds it full"


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
        if parameter.grad is not view:
            view.copy_(parameter.grad)
            parameter.grad = view
        missing -= 1
        if missing <= 0:
            on_full(number, row)

    for parameter, part in zip(parameters, row.split(lengths), strict=True):
        view = part.view_as(parameter)
        parameter.register_post_accumulate_grad_hook(lambda p, view=view: arrived(p, view))


def collect(module, bucket_bytes, firings, on_full):
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    sizes = [parameter.numel() * parameter.element_size() for parameter in trained]
    for number, indices in enumerate(fill_buckets(sizes, bucket_bytes)):
        hook_bucket(number, [trained[i] for i in indices], firings, on_full)
