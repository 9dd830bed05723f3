"""d_model."""

PART = "mfu_and_hfu"
SENTENCE = "The hidden size is taken for heads times head size."


def mfu_and_hfu(run, data_sheet):
    if run.dtype not in data_sheet:
        return None
    flops = 6 * run.parameters + 12 * run.layers * run.hidden * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * data_sheet[run.dtype])
    return mfu, mfu * (1 + run.recomputed / 3)
