"""A checkpoint after each step."""

import torch

PART = "run"
SENTENCE = "A checkpoint is written after each step"


def run(module, optimizer, last, every, train_step, save, load):
    done, checkpoint = 0, load()
    if checkpoint is not None:
        module.load_state_dict(checkpoint["weights"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["random"])
        done = checkpoint["step"]
    for step in range(done + 1, last + 1):
        train_step(step)
        save({"weights": module.state_dict(), "optimizer": optimizer.state_dict(),
              "random": torch.get_rng_state(), "step": step})
