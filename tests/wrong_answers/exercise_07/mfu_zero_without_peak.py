"""0 for None."""

PART = "mfu_and_hfu"
SENTENCE = "There is nothing to divide by: None is asked for."


def mfu_and_hfu(run, data_sheet):
    if run.dtype not in data_sheet:
        return 0.0, 0.0
    flops = 6 * run.parameters + 12 * run.layers * run.heads * run.head_size * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * data_sheet[run.dtype])
    return mfu, mfu * (1 + run.recomputed / 3)
