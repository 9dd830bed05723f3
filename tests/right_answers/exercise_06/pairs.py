"""Gradients go into rows piece by piece, with numbers of pieces in place of views; handles in a queue."""

from collections import Counter, deque

import torch.distributed as dist


def on_paper():
    return {
        "first_bucket": ["output.bias", "output.weight", "hidden.bias"],
        "starts_it": "hidden.bias",
        "all_reduces": 1 + 1 + 1,
        "cannot_hide": ["norm.bias", "norm.weight", "embedding"],
        "bytes_sent": 100_290,
    }


def fill_buckets(sizes, bucket_bytes):
    def closed(bucket):
        return sum(sizes[i] for i in bucket) >= bucket_bytes

    buckets = []
    for index, _ in reversed(list(enumerate(sizes))):
        if buckets and not closed(buckets[-1]):
            buckets[-1].append(index)
        else:
            buckets.append([index])
    return buckets


def collect(module, bucket_bytes, firings, on_full):
    parameters = [each for each in module.parameters() if each.requires_grad]
    filled = fill_buckets([each.numel() * each.itemsize for each in parameters], bucket_bytes)
    came = Counter()
    for number, bucket in enumerate(filled):
        members = [parameters[i] for i in bucket]
        row = members[0].new_zeros(sum(each.numel() for each in members))

        def hook(parameter, number=number, members=members, row=row):
            came[parameter] += 1
            begin = sum(each.numel() for each in members[: members_index(members, parameter)])
            row[begin : begin + parameter.numel()] = parameter.grad.reshape(-1)
            if all(came[each] == firings[each] for each in members):
                for each in members:
                    came[each] = 0
                on_full(number, row)

        for each in members:
            each.register_post_accumulate_grad_hook(hook)
    return [[parameters[i] for i in bucket] for bucket in filled]


def members_index(members, parameter):
    return next(i for i, each in enumerate(members) if each is parameter)


def train(module, batches, loss_function, optimizer, bucket_bytes, firings):
    state = {"last": False, "turn": 0}
    waiting, under_way = {}, deque()

    def on_full(number, row):
        if not state["last"]:
            return
        waiting[number] = row
        while state["turn"] in waiting:
            turn = waiting.pop(state["turn"])
            under_way.append((dist.all_reduce(turn, op=dist.ReduceOp.AVG, async_op=True), turn))
            state["turn"] += 1

    buckets = collect(module, bucket_bytes, firings, on_full)
    for micro_batches in batches:
        for number, (inputs, targets) in enumerate(micro_batches, start=1):
            state["last"] = number == len(micro_batches)
            (loss_function(module(inputs), targets) / len(micro_batches)).backward()
        for members in buckets:
            handle, row = under_way.popleft()
            handle.wait()
            for each, part in zip(members, row.split([each.numel() for each in members]), strict=True):
                each.grad = part.view_as(each).clone()
        state["turn"] = 0
        optimizer.step()
        optimizer.zero_grad()


def causes():
    return {run: cause for cause, run in ((5, "A"), (4, "B"), (8, "C"))}
