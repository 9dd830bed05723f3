"""Only the optimizer goes on."""

import torch

PART = "run"
SENTENCE = "The weights are not those of the checkpoint"


def run(module, optimizer, last, every, train_step, save, load):
    done, checkpoint = 0, load()
    if checkpoint is not None:
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["random"])
        done = checkpoint["step"]
    for step in range(done + 1, last + 1):
        train_step(step)
        if step % every == 0 or step == last:
            save({"weights": module.state_dict(), "optimizer": optimizer.state_dict(),
                  "random": torch.get_rng_state(), "step": step})
