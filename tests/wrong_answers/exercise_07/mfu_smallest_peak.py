"""The smallest number of the data sheet: no sparse one."""

PART = "mfu_and_hfu"
SENTENCE = "The peak of another type is taken"


def mfu_and_hfu(run, data_sheet):
    if run.dtype not in data_sheet:
        return None
    peak = min(data_sheet.values())
    flops = 6 * run.parameters + 12 * run.layers * run.heads * run.head_size * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * peak)
    return mfu, mfu * (1 + run.recomputed / 3)
