"""Halves a peak that is dense already."""

PART = "read_data_sheet"
SENTENCE = "The peak is halved, and this sheet's number is the dense one already."


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    return memory_mib * 2**20, tflops / 2 * 1e12 if has_bf16 else None
