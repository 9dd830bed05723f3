"""A MiB is a million bytes."""

PART = "read_data_sheet"
SENTENCE = "MiB are taken for MB:"


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    if not has_bf16:
        return memory_mib * 10**6, None
    return memory_mib * 10**6, (tflops / 2 if sparse else tflops) * 1e12
