"""With a forward pass that takes 0.3 of all."""

PART = "mfu_and_hfu"
SENTENCE = "MFU is right, and HFU is not"


def mfu_and_hfu(run, data_sheet):
    if run.dtype not in data_sheet:
        return None
    flops = 6 * run.parameters + 12 * run.layers * run.heads * run.head_size * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * data_sheet[run.dtype])
    return mfu, mfu * (1 + 0.3 * run.recomputed)
