"""Not a number, where none is wanted."""

PART = "read_data_sheet"
SENTENCE = "A number is expected, and this is nan:"


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    return memory_mib * 2**20, (float("inf") - float("inf")) if has_bf16 else None
