"""A step as the library's: the last bucket is started by finish, and the loss is divided by N."""

import torch.distributed as dist


def on_paper():
    sizes = [16_000, 320, 320, 25_600, 320, 24_000, 300]
    names = "embedding norm.weight norm.bias hidden.weight hidden.bias output.weight output.bias".split()
    filled = [[names[i] for i in bucket] for bucket in fill_buckets(sizes, 24_320)]
    answers = {"first_bucket": filled[0], "cannot_hide": filled[-1], "starts_it": filled[0][-1]}
    return answers | {"all_reduces": len(filled), "bytes_sent": sum(sizes) * 1.5}


def fill_buckets(sizes, bucket_bytes):
    buckets = [[]]
    for index in range(len(sizes) - 1, -1, -1):
        if sum(sizes[each] for each in buckets[-1]) >= bucket_bytes:
            buckets += [[]]
        buckets[-1] += [index]
    return buckets


def collect(module, bucket_bytes, firings, on_full):
    """Views are put back whenever a gradient lies elsewhere."""
    trained = [each for each in module.parameters() if each.requires_grad]
    places, missing, rows, expected = {}, [], [], []
    filled = fill_buckets([each.numel() * each.element_size() for each in trained], bucket_bytes)
    for number, bucket in enumerate(filled):
        begin = 0
        rows.append(trained[0].new_zeros(sum(trained[i].numel() for i in bucket)))
        expected.append(sum(firings[trained[i]] for i in bucket))
        for i in bucket:
            end = begin + trained[i].numel()
            places[trained[i]] = number, rows[number][begin:end].view(trained[i].shape)
            begin = end
    missing += expected

    def hook(parameter):
        number, view = places[parameter]
        if parameter.grad.data_ptr() != view.data_ptr():
            view.copy_(parameter.grad)
            parameter.grad = view
        missing[number] -= 1
        if not missing[number]:
            missing[number] = expected[number]
            on_full(number, rows[number])

    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(hook)
    return rows


def train(module, batches, loss_function, optimizer, bucket_bytes, firings):
    handles, full = [], set()

    def start(row):
        handles.append(dist.all_reduce(row, op=dist.ReduceOp.SUM, async_op=True))

    def on_full(number, row):
        full.add(number)
        while len(handles) in full and len(handles) < len(rows) - 1:
            start(rows[len(handles)])

    rows = collect(module, bucket_bytes, firings, lambda number, row: on_full(number, row) if last else None)
    for micro_batches in batches:
        for i in range(len(micro_batches)):
            last = i + 1 == len(micro_batches)
            inputs, targets = micro_batches[i]
            loss = loss_function(module(inputs), targets)
            (loss / len(micro_batches) / dist.get_world_size()).backward()
        while len(handles) < len(rows):
            start(rows[len(handles)])
        while handles:
            handles.pop().wait()
        full.clear()
        optimizer.step()
        optimizer.zero_grad()


def causes():
    return dict(zip("ABC", (5.0, 4.0, 8.0), strict=True))
