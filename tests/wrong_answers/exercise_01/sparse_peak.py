"""The larger number on the sheet."""

PART = "read_data_sheet"
SENTENCE = "This is the sparse peak:"


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    return memory_mib * 2**20, tflops * 1e12 if has_bf16 else None
