"""Both have 16 bits."""

PART = "mfu_and_hfu"
SENTENCE = "There is nothing to divide by: None is asked for."


def mfu_and_hfu(run, data_sheet):
    peak = data_sheet.get(run.dtype, data_sheet.get("fp16"))
    flops = 6 * run.parameters + 12 * run.layers * run.heads * run.head_size * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * peak)
    return mfu, mfu * (1 + run.recomputed / 3)
