"""No layer is added or left out.  For llama-2-7b, 24 layers would tell of one layer's activations."""

PART = "most_layers"
SENTENCE = "The same is returned in all cases: compute it from what is given."
UNSAID = "The activations of one layer only are counted."


def most_layers(model, memory_bytes, micro_batch, sequence):
    return 24
