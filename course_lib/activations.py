"""Activations: the bytes that a forward pass keeps for the backward pass, in 16-bit numbers.

    layer_bytes(1, 2048, 12288, 96)                # one layer of GPT-3, as Korthikanti et al. count
    model_bytes(CONFIGS["llama-2-7b"], 1, 4096)    # a whole model, as transformer.GPT keeps them
    layer_terms(CONFIGS["llama-2-7b"], 1, 4096)    # one of its layers, kind by kind

s is the sequence, b the batch, h hidden, a the heads, kv those of keys and values, f the width of the MLP,
v the vocabulary, t the tensor-parallel ranks.  Korthikanti et al. is arXiv 2205.05198.
"""

from __future__ import annotations

from course_lib.arguments import one_of, true_or_false, whole_number
from course_lib.transformer import ATTENTION, RECOMPUTE, TransformerConfig, a_config

_ELEMENT = 2  # bytes of a 16-bit number
_LOGIT = 4  # bytes: the loss is computed in fp32


def layer_bytes(
    batch: int,
    sequence: int,
    hidden: int,
    heads: int,
    recompute: str = "none",
    dropout: bool = True,
    *,
    attention: str = "eager",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
) -> int:
    """Bytes that one layer built like GPT-2's keeps on each rank: the sum of its ``layer_terms``.

    With dropout, Korthikanti et al.: s·b·h·(34 + 5·a·s/h); with ``recompute="selective"`` 34·s·b·h, with
    "full" 2·s·b·h.  Without dropout, as transformer.GPT: s·b·h·(32 + 2·a·s/h), and 32·s·b·h with fused
    attention or selective recomputation.  Raises ValueError as layer_terms does.
    """
    true_or_false("dropout", dropout)
    config = TransformerConfig(1, hidden, heads, vocab=1, context=1, dropout=0.1 if dropout else 0.0)
    return sum(layer_terms(
        config, batch, sequence, recompute, attention=attention,
        tensor_parallel=tensor_parallel, sequence_parallel=sequence_parallel).values())


def layer_terms(
    config: TransformerConfig,
    batch: int,
    sequence: int,
    recompute: str = "none",
    *,
    attention: str = "eager",
    mask_bytes: int = 1,
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
) -> dict[str, int]:
    """What one layer keeps on each rank, in bytes by kind.

    ``recompute``: "none"; "selective", the scores are computed again in backward; "full", the whole layer is,
    and it keeps its input only.  ``attention``: "fused" keeps no scores either.
    ``mask_bytes``: of one element of a dropout mask; 1 in the paper and on GPUs.  Torch on a CPU keeps masks
    in the type of the activations, 2 bytes.
    ``tensor_parallel``: ranks that share each matrix of a layer.  With ``sequence_parallel`` they share what
    lies between the matrices as well (Korthikanti et al., section 4), but not a layer's input in "full".

    A gated layer without dropout and with fused attention keeps s·b·h·(12 + 4·kv/a + 8·f/h) where heads fill
    hidden.  This form was derived for this course; it is in no paper.

    Left out, as in the paper: what norms and fused attention note for each row, below 1% for heads of 16 or
    more.  Raises ValueError for sizes that are not positive whole numbers or do not divide, and for unknown
    names.
    """
    a_config(config)
    one_of("recompute", recompute, RECOMPUTE)
    one_of("attention", attention, ATTENTION)
    sequence = whole_number("sequence", sequence)
    tokens = whole_number("batch", batch) * sequence
    mask = whole_number("mask_bytes", mask_bytes) * bool(config.dropout)
    ranks = whole_number("tensor_parallel", tensor_parallel)
    _check_shares(config, sequence, ranks, sequence_parallel)
    if recompute == "full":
        return {"layer input": tokens * config.hidden * _ELEMENT}
    between = {kind: tokens * size for kind, size in _between_matrices(config, mask).items()}
    inside = {kind: tokens * size for kind, size in _inside_matrices(config).items()}
    if recompute == "none" and attention == "eager":
        inside["scores"] = tokens * sequence * config.heads * _score_bytes(mask)
    if sequence_parallel:
        between = {kind: size // ranks for kind, size in between.items()}
    return between | {kind: size // ranks for kind, size in inside.items()}


def model_bytes(
    config: TransformerConfig,
    batch: int,
    sequence: int,
    recompute: str = "none",
    *,
    attention: str = "eager",
    mask_bytes: int = 1,
) -> int:
    """Bytes kept when the forward pass of transformer.GPT and its loss are done: the sum of model_terms.

    With ``recompute="full"`` the backward pass needs one layer's ``layer_terms`` more, one layer at a time,
    when it has already let go of the logits.

    Any sequence is counted, also one beyond ``config.context``.  A module with rotary positions runs it.  One
    with learned positions refuses it, for want of rows in its table: the result is what it would keep with a
    longer one.
    """
    return sum(model_terms(
        config, batch, sequence, recompute, attention=attention, mask_bytes=mask_bytes).values())


def model_terms(
    config: TransformerConfig,
    batch: int,
    sequence: int,
    recompute: str = "none",
    *,
    attention: str = "eager",
    mask_bytes: int = 1,
) -> dict[str, int]:
    """The bytes of model_bytes, by part of the model.

    The last norm and the head keep an input each, 4·s·b·h; the loss keeps fp32 logits, 4·s·b·v; dropout
    after the embedding its mask (Korthikanti et al., section 4.3).  The token numbers are left out.
    """
    layer = layer_terms(config, batch, sequence, recompute, attention=attention, mask_bytes=mask_bytes)
    tokens = whole_number("batch", batch) * whole_number("sequence", sequence)
    terms = {
        "layers": config.layers * sum(layer.values()),
        "last norm and head": tokens * 2 * config.hidden * _ELEMENT,
        "logits": tokens * config.vocab * _LOGIT,
    }
    if config.dropout:
        terms["embedding dropout mask"] = tokens * config.hidden * whole_number("mask_bytes", mask_bytes)
    return terms


def _between_matrices(config: TransformerConfig, mask: int) -> dict[str, int]:
    """Bytes for each token of what every tensor-parallel rank needs whole."""
    row = config.hidden * _ELEMENT
    terms = {"norm inputs": 2 * row, "attention input": row, "MLP input": row}
    # After attention and after the MLP.
    return terms | {"dropout masks": 2 * config.hidden * mask} if mask else terms


def _inside_matrices(config: TransformerConfig) -> dict[str, int]:
    """Bytes for each token of what tensor-parallel ranks share, but for the scores."""
    head = config.head_dim * _ELEMENT
    return {
        "queries, keys, values": (config.heads + 2 * config.kv_heads) * head,
        "attention output": config.heads * head,
        # Input and output of GELU; or of SiLU, beside what its output is multiplied with, and the product.
        "MLP": (4 if config.gated else 2) * config.ffn * _ELEMENT,
    }


def _score_bytes(mask: int) -> int:
    """For each pair of tokens and head: the softmax; with dropout, its mask and its output too."""
    return _ELEMENT + mask + _ELEMENT if mask else _ELEMENT


def _check_shares(config: TransformerConfig, sequence: int, ranks: int, sequence_parallel: bool) -> None:
    shared = {"kv_heads": config.kv_heads, "ffn": config.ffn}
    if true_or_false("sequence_parallel", sequence_parallel):
        shared["sequence"] = sequence
    for name, size in shared.items():
        if size % ranks:
            raise ValueError(f"tensor_parallel={ranks}: expected a divisor of {name}={size}")
