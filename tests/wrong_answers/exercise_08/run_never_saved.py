"""No checkpoint is written."""

import torch

PART = "run"
SENTENCE = "No checkpoint is written"


def run(module, optimizer, last, every, train_step, save, load):
    done, checkpoint = 0, load()
    if checkpoint is not None:
        module.load_state_dict(checkpoint["weights"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["random"])
        done = checkpoint["step"]
    for step in range(done + 1, last + 1):
        train_step(step)
