"""Rounded."""

PART = "mfu_and_hfu"
SENTENCE = "This is right in its first digits only"


def mfu_and_hfu(run, data_sheet):
    if run.dtype not in data_sheet:
        return None
    flops = 6 * run.parameters + 12 * run.layers * run.heads * run.head_size * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * data_sheet[run.dtype])
    return mfu, round(mfu * (1 + run.recomputed / 3), 3)
