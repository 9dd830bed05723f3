"""What the checkpoint holds is put back before each step."""

import torch

PART = "run"
SENTENCE = "put in once, before the first step"


def run(module, optimizer, last, every, train_step, save, load):
    checkpoint = load()
    done = 0 if checkpoint is None else checkpoint["step"]
    for step in range(done + 1, last + 1):
        if checkpoint is not None:
            module.load_state_dict(checkpoint["weights"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            torch.set_rng_state(checkpoint["random"])
        train_step(step)
        if step % every == 0 or step == last:
            save({"weights": module.state_dict(), "optimizer": optimizer.state_dict(),
                  "random": torch.get_rng_state(), "step": step})
