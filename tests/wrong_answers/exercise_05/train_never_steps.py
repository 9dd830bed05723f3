"""i % K == K is never true."""

PART = "train"
SENTENCE = "The optimizer has never stepped"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for i, (inputs, targets) in enumerate(micro_batches):
        (loss_function(module(inputs), targets) / accumulation_steps).backward()
        if i % accumulation_steps == accumulation_steps:
            optimizer.step()
            optimizer.zero_grad()
