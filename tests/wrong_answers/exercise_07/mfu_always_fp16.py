"""As if bf16 and fp16 were the same everywhere."""

PART = "mfu_and_hfu"
SENTENCE = "The peak of another type is taken"


def mfu_and_hfu(run, data_sheet):
    if run.dtype not in data_sheet:
        return None
    peak = data_sheet.get("fp16", data_sheet[run.dtype])
    flops = 6 * run.parameters + 12 * run.layers * run.heads * run.head_size * run.sequence
    mfu = run.tokens_per_second * flops / (run.devices * peak)
    return mfu, mfu * (1 + run.recomputed / 3)
