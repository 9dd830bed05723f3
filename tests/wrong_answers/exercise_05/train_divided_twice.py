"""By K in the loss, and again in the gradients."""

PART = "train"
SENTENCE = "divided by K twice"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        for inputs, targets in group:
            (loss_function(module(inputs), targets) / len(group)).backward()
        for parameter in module.parameters():
            parameter.grad /= len(group)
        optimizer.step()
        optimizer.zero_grad()
