"""A class with a bucket's state, a copy in and a copy back, and the mean by division before the sum."""

from math import prod

import torch
import torch.distributed as dist

ORDER = ["embedding", "norm.weight", "norm.bias", "hidden.weight", "hidden.bias"]
ORDER += ["output.weight", "output.bias"]


def on_paper():
    *_, last = ORDER[:-4:-1]
    return dict(
        first_bucket=tuple(ORDER[:-4:-1]),
        starts_it=last,
        all_reduces=3,
        cannot_hide=tuple(ORDER[2::-1]),
        bytes_sent=6 * (16_000 + 640 + 25_600 + 320 + 24_300) // 4,
    )


def fill_buckets(sizes, bucket_bytes):
    left, buckets = list(enumerate(sizes)), []
    while left:
        bucket = []
        while left and sum(sizes[i] for i in bucket) < bucket_bytes:
            bucket.append(left.pop()[0])
        buckets.append(tuple(bucket))
    return tuple(buckets)


class Bucket:
    """Its gradients are copied into its row by the hook that makes it full."""

    def __init__(self, number, parameters, firings, on_full):
        self.number, self.parameters, self.firings, self.on_full = number, parameters, firings, on_full
        self.row = parameters[0].new_empty(sum(prod(each.shape) for each in parameters))
        self.begin()
        for each in parameters:
            each.register_post_accumulate_grad_hook(self.arrived)

    def begin(self):
        self.awaited = {each: self.firings[each] for each in self.parameters}

    def arrived(self, parameter):
        self.awaited[parameter] -= 1
        if not any(self.awaited.values()):
            self.begin()
            with torch.no_grad():
                torch.cat([each.grad.flatten() for each in self.parameters], out=self.row)
            self.on_full(self.number, self.row)

    def hand_out(self):
        parts = self.row.split([each.numel() for each in self.parameters])
        for each, part in zip(self.parameters, parts, strict=True):
            each.grad.copy_(part.reshape(each.shape))


def collect(module, bucket_bytes, firings, on_full):
    trained = [each for each in module.parameters() if each.requires_grad]
    filled = fill_buckets([each.nbytes for each in trained], bucket_bytes)
    return [
        Bucket(number, [trained[i] for i in bucket], firings, on_full) for number, bucket in enumerate(filled)
    ]


class Averager:
    def __init__(self, module, bucket_bytes, firings):
        self.buckets = collect(module, bucket_bytes, firings, self.on_ready)
        self.is_last = False
        self.begin()

    def begin(self):
        self.ready, self.handles = set(), []

    def on_ready(self, number, row):
        if not self.is_last:
            return
        row.div_(dist.get_world_size())
        self.ready.add(number)
        while (turn := len(self.handles)) in self.ready:
            self.handles.append(dist.all_reduce(self.buckets[turn].row, async_op=True))

    def finish(self):
        for handle, bucket in zip(self.handles, self.buckets, strict=True):
            handle.wait()
            bucket.hand_out()
        self.begin()


def train(module, batches, loss_function, optimizer, bucket_bytes, firings):
    averager = Averager(module, bucket_bytes, firings)
    for *earlier, last in batches:
        for micro_batch in [*earlier, last]:
            inputs, targets = micro_batch
            averager.is_last = micro_batch is last
            loss_function(module(inputs), targets).div(len(earlier) + 1).backward()
        averager.finish()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def causes():
    return dict(A=5, B=4, C=8)
