"""Gradients by torch.func, which can be differentiated again: each of them keeps its micro-batch's graph."""

from torch.func import functional_call, grad

PART = "train"
SENTENCE = "activations stay in memory"


def train(module, micro_batches, accumulation_steps, loss_function, optimizer):
    parameters = dict(module.named_parameters())

    def loss(parameters, inputs, targets):
        return loss_function(functional_call(module, parameters, (inputs,)), targets)

    for start in range(0, len(micro_batches), accumulation_steps):
        group = micro_batches[start : start + accumulation_steps]
        gradients = [grad(loss)(parameters, *pair) for pair in group]
        for name, parameter in parameters.items():
            parameter.grad = sum(each[name] for each in gradients).detach() / len(group)
        optimizer.step()
