"""Steps before each K-th backward, also before the very first one."""

PART = "train"
SENTENCE = "The optimizer steps before there is any gradient"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches):
        if i % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
