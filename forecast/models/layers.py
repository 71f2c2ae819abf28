"""The Informer's blocks: encoder layer, distilling block, decoder layer.

All blocks take and return `(batch, length, d_model)`; normalisation follows each residual sum (post-norm).
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention import Attention
from forecast.attention.base import check_choice
from forecast.attention.dropout import Dropout, apply_after_dropped_gelu
from forecast.models.embedding import CircularConv
from forecast.models.norm import BatchNorm


def match_width(d_ff: int, d_model: int, attentions: list[Attention], match: str | None) -> int:
    """The width of the feed-forward of a layer.

    match=None gives `d_ff`. match="parameters" gives the width, at least 1, with which the layer has as many parameters
    as a layer of width `d_ff` with softmax attention, to the nearest unit of 2 · d_model + 1 parameters.
    """
    if match is None:
        return d_ff
    check_choice("match", match, ("parameters",))
    # weights and biases of the projections of Q, K, V and the output
    softmax = len(attentions) * 4 * d_model * (d_model + 1)
    found = sum(parameter.numel() for attention in attentions for parameter in attention.parameters())
    return max(1, d_ff + round((softmax - found) / (2 * d_model + 1)))


class FeedForward(nn.Module):
    """Two linear layers with an exact GELU between them, applied to each position; cost length · d_model · d_ff."""

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch length d_model"]:
        return self.dropout(apply_after_dropped_gelu(self.contract, self.expand(x), self.dropout))


class EncoderLayer(nn.Module):
    """x ← norm(x + attention(x)); x ← norm(x + feed_forward(x))."""

    def __init__(
        self, attention: Attention, d_model: int, d_ff: int, dropout: float, match: str | None = None
    ) -> None:
        super().__init__()
        self.attention = attention
        d_ff = match_width(d_ff, d_model, [attention], match)
        self.norm1 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch length d_model"]:
        x = self.norm1(x + self.dropout(self.attention(x, x)))
        return self.norm2(x + self.feed_forward(x))


class Distil(nn.Module):
    """Halve the length, rounded up: circular convolution, BatchNorm, ELU, max-pool (Zhou et al. 2021, eq. 5)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.conv = CircularConv(d_model, d_model)
        self.norm = BatchNorm(d_model)

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch half d_model"]:
        x = F.elu(self.norm(self.conv(x).flatten(0, 1))).view_as(x)
        return F.max_pool1d(x.transpose(1, 2), kernel_size=3, stride=2, padding=1).transpose(1, 2)


class Encoder(nn.Module):
    """Encoder layers, a distilling block between neighbours where `distil` is true, and a final LayerNorm."""

    def __init__(self, layers: list[EncoderLayer], d_model: int, *, distil: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.distils = nn.ModuleList(Distil(d_model) if distil else nn.Identity() for _ in layers[1:])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch shorter d_model"]:
        x = self.layers[0](x)
        for distil, layer in zip(self.distils, self.layers[1:], strict=True):
            x = layer(distil(x))
        return self.norm(x)


def stack_encoder(
    make_attention: Sequence[Callable[..., Attention]],
    n_heads: int,
    *,
    d_model: int,
    dropout: float,
    **sizes: Any,
) -> Encoder:
    """An encoder without distilling, whose layers each have an attention layer of their own.

    Args:
        make_attention: of each layer, a function; `make(d_model, n_heads, dropout=dropout)` creates its attention.
        sizes: the other sizes of an `EncoderLayer`.
    """
    layers = [
        EncoderLayer(make(d_model, n_heads, dropout=dropout), d_model=d_model, dropout=dropout, **sizes)
        for make in make_attention
    ]
    return Encoder(layers, d_model, distil=False)


class DecoderLayer(nn.Module):
    """x ← norm(x + self(x)); x ← norm(x + cross(x, memory)); x ← norm(x + feed_forward(x))."""

    def __init__(
        self,
        attention: Attention,
        cross: Attention,
        d_model: int,
        d_ff: int,
        dropout: float,
        match: str | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        d_ff = match_width(d_ff, d_model, [attention, cross], match)
        self.norm1 = nn.LayerNorm(d_model)
        self.cross = cross
        self.norm2 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        memory: Float[Tensor, "batch memory_len d_model"],
        last: int,
    ) -> Float[Tensor, "batch out_len d_model"]:
        """Compute at least the `last` positions, and no others where cross-attention treats queries independently."""
        x = self.norm1(x + self.dropout(self.attention(x, x)))
        if self.cross.independent_queries:
            x = x[:, -last:]
        x = self.norm2(x + self.dropout(self.cross(x, memory)))
        return self.norm3(x + self.feed_forward(x))


class Decoder(nn.ModuleList):
    """Decoder layers in sequence; the output has the `last` positions only."""

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        memory: Float[Tensor, "batch memory_len d_model"],
        last: int,
    ) -> Float[Tensor, "batch {last} d_model"]:
        for layer in self[:-1]:
            x = layer(x, memory, last=x.shape[1])
        return self[-1](x, memory, last)[:, -last:]
