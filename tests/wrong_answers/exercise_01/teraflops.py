"""The peak in the unit of the sheet."""

PART = "read_data_sheet"
SENTENCE = "The peak is in TFLOP/s, and FLOP/s are asked for"


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    if not has_bf16:
        return memory_mib * 2**20, None
    return memory_mib * 2**20, (tflops / 2 if sparse else tflops) * 1.0
