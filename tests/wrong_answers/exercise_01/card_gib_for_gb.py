"""80 GB, because nvidia-smi shows nearly 80 GiB."""

PART = "read_data_sheet"
SENTENCE = "GiB are taken for GB:"


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    if not has_bf16:
        return int(memory_mib / 1024 * 10**9), None
    return int(memory_mib / 1024 * 10**9), (tflops / 2 if sparse else tflops) * 1e12
