"""A T4 has the peak of its fp16."""

PART = "read_data_sheet"
SENTENCE = "This card has no bf16:"


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    return memory_mib * 2**20, (tflops / 2 if sparse else tflops) * 1e12
