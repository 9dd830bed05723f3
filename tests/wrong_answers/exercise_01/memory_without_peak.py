"""Half of the answer."""

PART = "read_data_sheet"
SENTENCE = "Two values are expected, in this order: the memory in bytes, and the peak in FLOP/s."


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    return memory_mib * 2**20
