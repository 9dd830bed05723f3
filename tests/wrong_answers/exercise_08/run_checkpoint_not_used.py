"""load is never called."""

import torch

PART = "run"
SENTENCE = "The checkpoint is not used"


def run(module, optimizer, last, every, train_step, save, load):
    done = 0
    for step in range(done + 1, last + 1):
        train_step(step)
        if step % every == 0 or step == last:
            save({"weights": module.state_dict(), "optimizer": optimizer.state_dict(),
                  "random": torch.get_rng_state(), "step": step})
