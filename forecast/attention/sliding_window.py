"""Sliding-window attention: exact softmax attention of every position to those within a window around it.

    out_i = Σ_j softmax_j(q_i·k_j / √E) v_j        over |i − j| <= w        (i − w <= j <= i when causal)

w, the option `attention_window`, counts tokens on each side. From w = n − 1 on this is full attention. Without role
cross, because a position of another sequence has no window around it.

Queries are cut into blocks of w positions. A block forms masked scores with its own keys and w more on each side, by
the kernels of `full`. Cost: n·w·E time, n·(w + E) memory. On a CUDA device, FlexAttention skips the keys outside of
the window in one kernel; compiled models and heads that it does not support use the blocks there too.

Sources: Beltagy et al. 2020, "Longformer", section 3.1 (with w/2 on each side); Dong et al. 2024, "Flex Attention".
"""

import functools
from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from forecast.attention.base import Attention, Tokens, check_causal_lengths, check_sizes
from forecast.attention.full import REGISTER, full_attention, short_softmax_attention
from forecast.attention.prefix_sums import cut


def sliding_window_attention(q: Tokens, k: Tokens, v: Tokens, *, attention_window: int, causal: bool = False) -> Tokens:
    """Compute softmax attention to `attention_window` positions on each side, or to those before if causal."""
    check_causal_lengths(q, k)
    length, before, after = q.shape[2], attention_window, 0 if causal else attention_window
    if before >= length - 1:
        return full_attention(q, k, v, causal=causal)
    if _has_flex_kernel(q):
        return flex_window_attention(q, k, v, before, after)
    size = max(before, REGISTER)
    if length <= size + before + after:  # all scores, not more than those of the blocks
        seen = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(-before).tril(after)
        return short_softmax_attention(q, k, v, seen)
    rows, count = q.shape[:2], -(-length // size)
    q, k, v = (cut(x.flatten(0, 1), size, 1) for x in (q, k, v))  # (batch · heads, blocks, size, head_dim)
    k, v = (_with_neighbours(x, before, after) for x in (k, v))
    out = short_softmax_attention(q, k, v, _seen_in_blocks(length, count, size, before, after, q.device))
    return out.flatten(1, 2)[:, :length].unflatten(0, rows)


def _with_neighbours(x: Tensor, before: int, after: int) -> Tensor:
    """Add the last positions of the block before and the first of the block after; zeros beyond the ends."""
    earlier = F.pad(x[:, :-1, -before:], (0, 0, 0, 0, 1, 0))
    later = [F.pad(x[:, 1:, :after], (0, 0, 0, 0, 0, 1))] if after else []
    return torch.cat([earlier, x, *later], dim=2)


def _seen_in_blocks(
    length: int, count: int, size: int, before: int, after: int, device: torch.device
) -> Bool[Tensor, "1 blocks size keys"]:
    """Mark the keys in the window of each query. Queries beyond the end see keys beyond it, so that no row is empty."""
    keys = before + size + after
    window = torch.ones(size, keys, dtype=torch.bool, device=device).triu().tril(before + after)
    start = size * torch.arange(count, device=device)[:, None, None]
    query = start + torch.arange(size, device=device)[:, None]
    key = start - before + torch.arange(keys, device=device)
    return (window & (key >= 0) & ((key < length) == (query < length)))[None]


def _has_flex_kernel(q: Tensor) -> bool:
    """Return whether FlexAttention has a fused kernel: on CUDA with Triton, not in float64, for 16 channels or more."""
    is_eager_on_cuda = q.is_cuda and not torch.compiler.is_compiling()
    return is_eager_on_cuda and q.dtype != torch.float64 and q.shape[3] >= 16 and find_spec("triton") is not None


def flex_window_attention(q: Tokens, k: Tokens, v: Tokens, before: int, after: int) -> Tokens:
    """Compute softmax attention to `before` earlier and `after` later positions with FlexAttention."""
    attend, make_mask = _compile_flex()
    # A mask from inference mode could not be saved for a later backward pass.
    with torch.inference_mode(False), torch.no_grad():
        mask = make_mask(q.shape[2], before, after, q.device)
    return attend(q, k, v, block_mask=mask)


@functools.cache
def _compile_flex() -> tuple[Callable[..., Tensor], Callable[..., object]]:
    """Return FlexAttention, compiled, and the block mask of a window, cached. Imported and compiled when first used."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled_mask = torch.compile(create_block_mask)  # uncompiled, it stores all n² entries

    @functools.lru_cache(maxsize=32)
    def make_mask(length: int, before: int, after: int, device: torch.device) -> object:
        def sees(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return (i - j <= before) & (j - i <= after)

        return compiled_mask(sees, None, None, length, length, device=str(device))

    return torch.compile(flex_attention), make_mask


class SlidingWindowAttention(Attention):
    """Softmax attention to the positions around each query: the control for whether attending far away pays.

    `attention_window`: tokens on each side of a query that it reads, at least 1. The default of 16 makes a query read
    33 of the 168 tokens of `experiment=compare_attention`, a fifth, and is the smallest block of keys that fills the
    vector registers of a CPU: fewer tokens would hardly be faster.

    Raises ValueError: see `Attention`; or `attention_window` is below 1.
    """

    roles = frozenset({"self", "causal"})

    def __init__(self, d_model: int, n_heads: int, *, role: str, dropout: float = 0.0, attention_window: int = 16):
        super().__init__(d_model, n_heads, role=role, dropout=dropout)
        check_sizes(attention_window=attention_window)
        self.attention_window = attention_window

    def why_equal_to_softmax(self, query_len: int, memory_len: int) -> str | None:
        if self.attention_window < memory_len - 1:
            return None
        return f"has a window of {self.attention_window} tokens on each side, which holds all {memory_len}"

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sliding_window_attention(q, k, v, attention_window=self.attention_window, causal=self.role == "causal")
