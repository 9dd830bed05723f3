"""One all-reduce for each parameter."""

import torch.distributed as dist

PART = "train"
SENTENCE = "Each parameter has an all-reduce of its own"


def train(module, batches, loss_function, optimizer, bucket_bytes, firings):
    handles, is_last, missing = [], False, {}

    def start(parameter):
        if not is_last:
            return
        missing[parameter] = missing.get(parameter, firings[parameter]) - 1
        if missing[parameter] == 0:
            waiting.append(parameter)
            while len(handles) < len(trained) and trained[len(handles)] in set(waiting):
                gradient = trained[len(handles)].grad
                handles.append((gradient, dist.all_reduce(gradient, async_op=True)))

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad][::-1]
    waiting = []
    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(start)
    for micro_batches in batches:
        for k, (inputs, targets) in enumerate(micro_batches):
            is_last = k == len(micro_batches) - 1
            (loss_function(module(inputs), targets) / len(micro_batches)).backward()
        for gradient, handle in handles:
            handle.wait()
            gradient /= dist.get_world_size()
        handles.clear()
        missing.clear()
        waiting.clear()
        optimizer.step()
        optimizer.zero_grad()
