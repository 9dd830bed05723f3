"""Only the step goes on."""

import torch

PART = "run"
SENTENCE = "weights and moments begin anew"


def run(module, optimizer, last, every, train_step, save, load):
    done, checkpoint = 0, load()
    if checkpoint is not None:
        done = checkpoint["step"]
    for step in range(done + 1, last + 1):
        train_step(step)
        if step % every == 0 or step == last:
            save({"weights": module.state_dict(), "optimizer": optimizer.state_dict(),
                  "random": torch.get_rng_state(), "step": step})
