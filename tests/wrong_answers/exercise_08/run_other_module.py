"""The checkpoint is loaded into a module of its own."""

PART = "run"
SENTENCE = "weights and moments begin anew"


def run(module, optimizer, last, every, train_step, save, load):
    done, checkpoint = 0, load()
    if checkpoint is not None:
        module, optimizer, done = checkpoint["module"], checkpoint["optimizer"], checkpoint["step"]
    for step in range(done + 1, last + 1):
        train_step(step)
        if step % every == 0 or step == last:
            save({"module": module, "optimizer": optimizer, "step": step})
