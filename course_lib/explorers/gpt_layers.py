"""The layers of a GPT for the simulator, computed from its shape: for explorers, which have no torch.

The explorers of buckets and of overlap, and the grid of the map, run the simulator on them.  Its shapes are
those of ``transformer``.
"""

from __future__ import annotations

from course_lib.simulator import Layer
from course_lib.transformer import TransformerConfig


def gpt_layers(
    config: TransformerConfig, sequences: int, sequence: int, flops: float, element_bytes: int
) -> list[Layer]:
    """Embedding, each layer, and the head, where ``sequences`` of ``sequence`` tokens are a micro-batch.

    ``config`` is of GPT-2's kind: biases, LayerNorm, learned positions, tied embedding.  ``flops``: FLOP/s
    that a rank achieves.  ``element_bytes``: of an element of a gradient.  Together they take
    ``config.flops_per_token``, a third of it forward; the tied matrix's part is the head's.
    """
    hidden, ffn = config.hidden, config.ffn
    norm = [hidden, hidden]
    attention = 4 * [hidden * hidden, hidden]  # query, key, value, output
    matrices = {
        "embedding": [config.vocab * hidden, config.positions * hidden],
        **{f"layer {number}": [*norm, *attention, *norm, ffn * hidden, ffn, hidden * ffn, hidden]
           for number in range(config.layers)},
        "head": norm,
    }  # fmt: skip
    scores = 2 * config.heads * config.head_dim * sequence  # multiplications of a token in a layer
    work = {name: sum(sizes) + scores * name.startswith("layer") for name, sizes in matrices.items()}
    work["embedding"] -= config.vocab * hidden
    work["head"] += config.vocab * hidden
    forward = {name: 2 * each * sequences * sequence / flops for name, each in work.items()}
    return [
        Layer(name, tuple(element_bytes * size for size in sizes), forward[name], 2 * forward[name])
        for name, sizes in matrices.items()
    ]
