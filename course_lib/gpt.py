"""A GPT that any TransformerConfig builds: from GPT-2 to Llama.  Use it as ``transformer.GPT``.

Queries, keys and values have a projection each, not one for all three: with rotary positions, autograd
would otherwise keep the joint output for the sake of the values, beside the rotated queries and keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.arguments import one_of
from course_lib.transformer import ATTENTION, RECOMPUTE, TransformerConfig, a_config

ROTARY_BASE = 10_000  # as in Llama 2; longer contexts use larger ones, at the same cost


class GPT(nn.Module):
    """Tokens (batch, sequence), int64, to logits (batch, sequence, vocab).

    ``attention``: "eager" computes the scores as a tensor; "fused" calls scaled_dot_product_attention.
    ``recompute``: "none"; "selective", so that scores are computed again in backward; "full", so that
    each layer keeps its input only.  Raises ValueError for other names.
    """

    def __init__(self, config: TransformerConfig, attention: str = "eager", recompute: str = "none") -> None:
        super().__init__()
        one_of("attention", attention, ATTENTION)
        one_of("recompute", recompute, RECOMPUTE)
        self.config = a_config(config)
        self.token_embedding = nn.Embedding(config.vocab, config.hidden)
        if config.learned_positions:
            self.position_embedding = nn.Embedding(config.positions, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, attention, recompute) for _ in range(config.layers))
        self.norm = _norm(config)
        self.head = nn.Linear(config.hidden, config.vocab, bias=False)
        if config.tied:
            self.head.weight = self.token_embedding.weight
        self.apply(_initialize)
        self._shrink_residuals()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token_embedding(tokens)
        rotation = None
        if self.config.learned_positions:
            x = x + self.position_embedding(self._positions(tokens))
        else:
            rotation = _rotation(tokens.shape[1], self.config.head_dim, like=x)
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, rotation)
        return self.head(self.norm(x))

    def _positions(self, tokens: Tensor) -> Tensor:
        return torch.arange(self.config.check_sequence(tokens.shape[1]), device=tokens.device)

    @torch.no_grad()
    def _shrink_residuals(self) -> None:
        # GPT-2: 2L terms are added to the residual stream, so that its variance would grow with L.
        for layer in self.layers:
            assert isinstance(layer, Layer)  # which nn.ModuleList does not tell
            for projection in (layer.attention.output, layer.mlp.down):
                projection.weight.mul_(1 / math.sqrt(2 * self.config.layers))


class Layer(nn.Module):
    """One layer: (batch, sequence, hidden) in and out."""

    def __init__(self, config: TransformerConfig, attention: str, recompute: str) -> None:
        super().__init__()
        self.recompute = recompute == "full"
        self.attention_norm = _norm(config)
        self.attention = Attention(config, attention, recompute)
        self.mlp_norm = _norm(config)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        if self.recompute:
            return checkpoint(self._transform, x, rotation, use_reentrant=False)
        return self._transform(x, rotation)

    def _transform(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.mlp(self.mlp_norm(x))


class Attention(nn.Module):
    """Causal self-attention; groups of query heads share a head of keys and values."""

    def __init__(self, config: TransformerConfig, attention: str, recompute: str) -> None:
        super().__init__()
        self.config = config
        self.recompute = recompute == "selective"
        self.attend: Callable = _fused_attention if attention == "fused" else _eager_attention
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        qkv_bias = config.bias or config.qkv_bias
        self.query = nn.Linear(config.hidden, queries, bias=qkv_bias)
        self.key = nn.Linear(config.hidden, keys, bias=qkv_bias)
        self.value = nn.Linear(config.hidden, keys, bias=qkv_bias)
        self.output = nn.Linear(queries, config.hidden, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        per_head = (*x.shape[:2], -1, self.config.head_dim)
        query, key, value = (linear(x).view(per_head) for linear in (self.query, self.key, self.value))
        if rotation is not None:
            query, key = _rotate(query, *rotation), _rotate(key, *rotation)
        dropout = self.config.dropout if self.training else 0.0
        if self.recompute:
            mixed = checkpoint(self.attend, query, key, value, dropout, use_reentrant=False)
        else:
            mixed = self.attend(query, key, value, dropout)
        return self.dropout(self.output(mixed))


class MLP(nn.Module):
    """GELU between two matrices, or, gated, SiLU and a third."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden, config.ffn, bias=config.bias)
        self.gate = nn.Linear(config.hidden, config.ffn, bias=config.bias) if config.gated else None
        self.down = nn.Linear(config.ffn, config.hidden, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        wide = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        return self.dropout(self.down(wide))


class RMSNorm(nn.RMSNorm):
    """Keeps its input for backward and no more, on CPUs too.

    GPUs have one kernel for it.  A CPU takes steps, of which autograd would keep fp32 copies: four times
    the memory.  There they are computed again instead.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return super().forward(x)
        return checkpoint(super().forward, x, use_reentrant=False, preserve_rng_state=False)


def _eager_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    """(batch, sequence, heads, head_dim), three times, to (batch, sequence, heads·head_dim)."""
    batch, sequence, heads, head_dim = query.shape
    kv_heads = key.shape[2]
    # The query heads of a group stand one below the other, so that keys and values need not be copied.
    grouped = query.view(batch, sequence, kv_heads, -1, head_dim).permute(0, 2, 3, 1, 4)
    scores = grouped.reshape(batch, kv_heads, -1, head_dim) @ key.permute(0, 2, 3, 1) / math.sqrt(head_dim)
    # Added, not filled in: autograd would keep the mask of each layer.
    future = torch.full((sequence, sequence), -math.inf, device=query.device, dtype=query.dtype).triu(1)
    weights = F.softmax(scores.view(batch, kv_heads, -1, sequence, sequence) + future, dim=-1)
    weights = F.dropout(weights, dropout).view(batch, kv_heads, -1, sequence)
    mixed = weights @ value.transpose(1, 2)
    mixed = mixed.view(batch, kv_heads, -1, sequence, head_dim).permute(0, 3, 1, 2, 4)
    return mixed.reshape(batch, sequence, heads * head_dim)


def _fused_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    """As _eager_attention, in one kernel, which computes the scores again in backward.

    A CPU's kernel has no dropout.  Torch takes steps then, of which autograd would keep the scores three
    times, in fp32.  There the steps are computed again instead.
    """
    if dropout and query.device.type == "cpu":
        mixed = checkpoint(_scaled_dot_product, query, key, value, dropout, use_reentrant=False)
    else:
        mixed = _scaled_dot_product(query, key, value, dropout)
    return mixed.flatten(2)


def _scaled_dot_product(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    shared = query.shape[2] != key.shape[2]
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    mixed = F.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout, is_causal=True, enable_gqa=shared)
    return mixed.transpose(1, 2)


def _rotation(sequence: int, head_dim: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (sequence, 1, head_dim // 2) each, of the angles of rotary positions."""
    pair = torch.arange(head_dim // 2, device=like.device, dtype=torch.float32)
    position = torch.arange(sequence, device=like.device, dtype=torch.float32)
    angle = torch.outer(position, ROTARY_BASE ** (-2 * pair / head_dim))[:, None]
    return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates pairs within each head of x (batch, sequence, heads, head_dim); an odd one out stays."""
    half = cosine.shape[-1]
    first, second, rest = x.split((half, half, x.shape[-1] - 2 * half), dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, rest), dim=-1)


def _norm(config: TransformerConfig) -> nn.Module:
    if config.norm == "rms":
        return RMSNorm(config.hidden, eps=1e-5)
    return nn.LayerNorm(config.hidden, bias=config.bias)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
