"""The range ends too early."""

import torch

PART = "run"
SENTENCE = "The run ends before its last step"


def run(module, optimizer, last, every, train_step, save, load):
    done, checkpoint = 0, load()
    if checkpoint is not None:
        module.load_state_dict(checkpoint["weights"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["random"])
        done = checkpoint["step"]
    for step in range(done + 1, last):
        train_step(step)
        if step % every == 0 or step == last:
            save({"weights": module.state_dict(), "optimizer": optimizer.state_dict(),
                  "random": torch.get_rng_state(), "step": step})
