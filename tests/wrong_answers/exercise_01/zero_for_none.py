"""No bf16, no speed."""

PART = "read_data_sheet"
SENTENCE = "A card without bf16 has no peak for it, and that is None; 0 would be a speed."


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    dense = tflops / 2 if sparse else tflops
    return memory_mib * 2**20, dense * 1e12 * has_bf16
