"""The hook's argument goes over the network."""

import torch.distributed as dist

PART = "train"
SENTENCE = "Weights go over the network here"


def train(module, batches, loss_function, optimizer, bucket_bytes, firings):
    is_last, handles, ready = False, [], set()
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad][::-1]

    def average(parameter):
        if is_last:
            ready.add(parameter)
            while len(handles) < len(trained) and trained[len(handles)] in ready:
                weight = trained[len(handles)].detach()
                handles.append((weight, dist.all_reduce(weight, async_op=True)))

    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(average)
    for micro_batches in batches:
        for k, (inputs, targets) in enumerate(micro_batches):
            is_last = k == len(micro_batches) - 1
            (loss_function(module(inputs), targets) / len(micro_batches)).backward()
        for weight, handle in handles:
            handle.wait()
            weight /= dist.get_world_size()
        handles.clear()
        ready.clear()
        optimizer.step()
        optimizer.zero_grad()
