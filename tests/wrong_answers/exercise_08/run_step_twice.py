"""The last step of the checkpoint is done again."""

import torch

PART = "run"
SENTENCE = "A step is done twice"


def run(module, optimizer, last, every, train_step, save, load):
    first, checkpoint = 1, load()
    if checkpoint is not None:
        module.load_state_dict(checkpoint["weights"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["random"])
        first = checkpoint["step"]
    for step in range(first, last + 1):
        train_step(step)
        if step % every == 0 or step == last:
            save({"weights": module.state_dict(), "optimizer": optimizer.state_dict(),
                  "random": torch.get_rng_state(), "step": step})
