"""The shape of a transformer, and what follows from it exactly: its parameters and its FLOPs per token.

    config = CONFIGS["llama-2-7b"]
    config.parameters              # 6_738_415_616
    config.flops_per_token(4096)   # forward and backward
    model = GPT(config)            # the module itself; torch is imported only here
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from course_lib.arguments import Catalog, one_of, true_or_false, whole_number

ATTENTION = ("eager", "fused")
RECOMPUTE = ("none", "selective", "full")
_BY_DEFAULT: Any = None  # a size that a config fills in from its others, so that it always is a number


def __getattr__(name: str):
    # Formulas need no torch, which takes seconds to import.
    if name == "GPT":
        from course_lib.gpt import GPT

        return GPT
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True)
class TransformerConfig:
    """A decoder-only transformer, from GPT-2 to Llama, by its sizes.

    ``kv_heads``: heads of keys and values, shared by equal groups of query heads; by default ``heads``.
    ``ffn``: width of the MLP; by default 4·hidden.  ``head_dim``: by default hidden/heads.
    ``gated``: the MLP has a third matrix and computes down(silu(gate(x))·up(x)).
    ``tied``: the head uses the token embedding's matrix.  ``learned_positions``: a table of ``context`` rows;
    without it, positions are rotations of queries and keys, which have no parameters.
    ``bias``: all linear layers (but the head) and layer norms have biases; ``qkv_bias``: at least the query,
    key and value projections do.  An RMS norm never has one.

    Raises ValueError for sizes that are not positive whole numbers or do not divide as they must.
    """

    layers: int
    hidden: int
    heads: int
    vocab: int
    context: int | None = None
    kv_heads: int = _BY_DEFAULT
    ffn: int = _BY_DEFAULT
    head_dim: int = _BY_DEFAULT
    gated: bool = False
    norm: str = "layer"
    tied: bool = True
    learned_positions: bool = True
    bias: bool = True
    qkv_bias: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "vocab"):
            self._set(name, whole_number(name, getattr(self, name)))
        self._fill_in("kv_heads", self.heads)
        self._fill_in("ffn", 4 * self.hidden)
        if self.head_dim is None and self.hidden % self.heads:
            raise ValueError(f"heads={self.heads}: expected a divisor of hidden={self.hidden}, or a head_dim")
        self._fill_in("head_dim", self.hidden // self.heads)
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads={self.kv_heads}: expected a divisor of heads={self.heads}")
        self._check_switches()
        if self.context is not None:
            self._set("context", whole_number("context", self.context))
        elif self.learned_positions:
            raise ValueError("context=None: expected the number of rows of the table of learned positions")

    def _fill_in(self, name: str, default: int) -> None:
        value = getattr(self, name)
        self._set(name, default if value is None else whole_number(name, value))

    def _check_switches(self) -> None:
        one_of("norm", self.norm, ("layer", "rms"))
        for name in ("gated", "tied", "learned_positions", "bias", "qkv_bias"):
            true_or_false(name, getattr(self, name))
        number = isinstance(self.dropout, Real) and not isinstance(self.dropout, bool)
        if not (number and 0 <= self.dropout < 1):
            raise ValueError(f"dropout={self.dropout!r}: expected a probability, at least 0 and below 1")
        self._set("dropout", float(self.dropout))

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen for everyone else

    @property
    def parameters(self) -> int:
        """All parameters, each counted once: a tied embedding is one matrix, not two."""
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        embeddings += self.positions * self.hidden
        return embeddings + self.layers * self.layer_parameters + self._norm_parameters

    @property
    def layer_parameters(self) -> int:
        """The parameters of one layer: attention, MLP and the norm before each."""
        return self._attention_parameters + self._mlp_parameters + 2 * self._norm_parameters

    @property
    def _attention_parameters(self) -> int:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        biases = (queries + 2 * keys) * (self.bias or self.qkv_bias) + self.hidden * self.bias
        return 2 * self.hidden * queries + 2 * self.hidden * keys + biases

    @property
    def _mlp_parameters(self) -> int:
        into_ffn = 2 if self.gated else 1
        return (into_ffn + 1) * self.hidden * self.ffn + (into_ffn * self.ffn + self.hidden) * self.bias

    @property
    def _norm_parameters(self) -> int:
        return self.hidden * (1 + (self.norm == "layer" and self.bias))

    @property
    def positions(self) -> int:
        """Rows of the table of learned positions; 0 without one."""
        return self.context if self.learned_positions and self.context else 0

    def check_sequence(self, sequence: object) -> int:
        """``sequence`` as an int, if the module can run so many tokens.

        Learned positions end at ``context``.  Rotations go on beyond it, so there it is no limit.
        """
        tokens = whole_number("sequence", sequence)
        if self.learned_positions and tokens > self.positions:
            raise ValueError(f"sequence={tokens}: expected at most context={self.context}")
        return tokens

    def flops_per_token(self, sequence: int) -> int:
        """FLOPs of forward and backward for one token in a sequence of ``sequence`` tokens.

        6P + 12·L·H·Q·T, as in PaLM (arXiv 2204.02311), Appendix B.  P is ``parameters``: all of them, the
        embeddings too, as PaLM counts; L layers, H heads of size Q, T = ``sequence``.  Causal attention is
        not halved, and recomputation is not counted.
        """
        sequence = whole_number("sequence", sequence)
        return 6 * self.parameters + 12 * self.layers * self.heads * self.head_dim * sequence


def a_config(value: object) -> TransformerConfig:
    """``value``, if it is a TransformerConfig.  Else raises ValueError: a name alone is none."""
    if not isinstance(value, TransformerConfig):
        name = value if isinstance(value, str) and value in CONFIGS else "gpt-2-small"
        raise ValueError(f"config={value!r}: expected a TransformerConfig, such as CONFIGS[{name!r}]")
    return value


def _gpt(layers: int, hidden: int, heads: int, context: int = 1024) -> TransformerConfig:
    return TransformerConfig(layers, hidden, heads, vocab=50257, context=context)


def _llama(layers: int, hidden: int, heads: int, vocab: int, **sizes) -> TransformerConfig:
    """Llama, and those built like it: Mistral, Qwen2.5."""
    switches: dict[str, Any] = {"gated": True, "norm": "rms", "learned_positions": False, "bias": False}
    return TransformerConfig(layers, hidden, heads, vocab, **switches, **{"tied": False, **sizes})


# Sizes from the models' published configurations, as litgpt and nanoGPT have them.
CONFIGS = Catalog("model", {
    "gpt-2-small": _gpt(12, 768, 12),
    "gpt-2-medium": _gpt(24, 1024, 16),
    "gpt-2-large": _gpt(36, 1280, 20),
    "gpt-2-xl": _gpt(48, 1600, 25),
    "gpt-3-175b": _gpt(96, 12288, 96, context=2048),
    "llama-2-7b": _llama(32, 4096, 32, 32000, context=4096, ffn=11008),
    "llama-2-13b": _llama(40, 5120, 40, 32000, context=4096, ffn=13824),
    "llama-2-70b": _llama(80, 8192, 64, 32000, context=4096, kv_heads=8, ffn=28672),
    "llama-3-8b": _llama(32, 4096, 32, 128256, context=8192, kv_heads=8, ffn=14336),
    "llama-3-70b": _llama(80, 8192, 64, 128256, context=8192, kv_heads=8, ffn=28672),
    "mistral-7b-v0.1": _llama(32, 4096, 32, 32000, context=4096, kv_heads=8, ffn=14336),
    "qwen2.5-0.5b": _llama(
        24, 896, 14, 151936, context=32768, kv_heads=2, ffn=4864, qkv_bias=True, tied=True),
    "qwen2.5-7b": _llama(28, 3584, 28, 152064, context=131072, kv_heads=4, ffn=18944, qkv_bias=True),
})
