"""Blocks of the models: normalisation, layers of encoder and decoder, and channel handling.

All blocks take and return `(batch, length, d_model)`; normalisation follows each residual sum (post-norm).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention import Attention
from forecast.attention.base import check_choice
from forecast.attention.dropout import Dropout, apply_after_dropped_gelu
from forecast.models.embedding import ByChannel, CircularConv

TOKENS = ("mixed", "independent", "joint", "axes")
EMBEDDING_SCALE = 0.3  # initial standard deviation of the variable embeddings; that of tokens is about 1

Tokens = Float[Tensor, "batch length d_model"]
Memory = Float[Tensor, "batch memory_len d_model"]
Sequences = Float[Tensor, "sequences length d_model"]
TargetIndex = Int[Tensor, " n_targets"]


class BatchNorm(nn.BatchNorm1d):
    """x̂ = (x − mean) / √(variance + eps) · weight + bias, mean and variance over the rows of all processes.

    With one process, and in evaluation, this is PyTorch's own layer. In training with several processes, each process
    must have the same number of rows; a step then equals the step of one process with the whole batch, running
    statistics included. `torch.nn.SyncBatchNorm` does the same on GPUs only.
    """

    def forward(self, x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
        if not (self.training and dist.is_initialized() and dist.get_world_size() > 1):
            return super().forward(x)
        rows = len(x) * dist.get_world_size()
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = MeanOverProcesses.apply(exact.mean(0))
        centred = exact - mean
        variance = MeanOverProcesses.apply(centred.square().mean(0))
        self._track(mean.detach(), variance.detach() * rows / (rows - 1))
        normal = centred * torch.rsqrt(variance + self.eps)
        return (normal * self.weight + self.bias).to(x.dtype)

    def _track(self, mean: Float[Tensor, " channels"], variance: Float[Tensor, " channels"]) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)
        self.num_batches_tracked += 1


class MeanOverProcesses(torch.autograd.Function):
    """Mean of a tensor over all processes; the gradient is the mean of the gradients of all processes."""

    @staticmethod
    def forward(ctx: Any, value: Float[Tensor, " channels"]) -> Float[Tensor, " channels"]:
        return sum_over_processes(value) / dist.get_world_size()

    @staticmethod
    def backward(ctx: Any, *gradients: Float[Tensor, " channels"]) -> Float[Tensor, " channels"]:
        return sum_over_processes(gradients[0]) / dist.get_world_size()


def sum_over_processes(values: Tensor) -> Tensor:
    """Add up a tensor over the processes of a run; without a process group, a copy. Every process must call this."""
    total = values.clone()
    if dist.is_initialized():
        dist.all_reduce(total)
    return total


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

    def forward(self, x: Tokens) -> Tokens:
        return self.dropout(apply_after_dropped_gelu(self.contract, self.expand(x), self.dropout))


class EncoderLayer(nn.Module):
    """x ← norm(x + attention(x)); x ← norm(x + feed_forward(x))."""

    def __init__(self, attention: Attention, d_model: int, d_ff: int, dropout: float, match: str | None = None) -> None:
        super().__init__()
        self.attention = attention
        d_ff = match_width(d_ff, d_model, [attention], match)
        self.norm1 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tokens) -> Tokens:
        x = self.norm1(x + self.dropout(self.attention(x, x)))
        return self.norm2(x + self.feed_forward(x))


class Distil(nn.Module):
    """Halve the length, rounded up: circular convolution, BatchNorm, ELU, max-pool (Zhou et al. 2021, eq. 5)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.conv = CircularConv(d_model, d_model)
        self.norm = BatchNorm(d_model)

    def forward(self, x: Tokens) -> Float[Tensor, "batch half d_model"]:
        x = F.elu(self.norm(self.conv(x).flatten(0, 1))).view_as(x)
        return F.max_pool1d(x.transpose(1, 2), kernel_size=3, stride=2, padding=1).transpose(1, 2)


class Encoder(nn.Module):
    """Encoder layers, a distilling block between neighbours where `distil` is true, and a final LayerNorm."""

    def __init__(self, layers: list[EncoderLayer], d_model: int, *, distil: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.distils = nn.ModuleList(Distil(d_model) if distil else nn.Identity() for _ in layers[1:])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tokens) -> Float[Tensor, "batch shorter d_model"]:
        x = self.layers[0](x)
        for distil, layer in zip(self.distils, self.layers[1:], strict=True):
            x = layer(distil(x))
        return self.norm(x)


def stack_encoder(
    make_attention: Sequence[Callable[..., Attention]], n_heads: int, *, d_model: int, dropout: float, **sizes: Any
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
        self, attention: Attention, cross: Attention, d_model: int, d_ff: int, dropout: float, match: str | None = None
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

    def forward(self, x: Tokens, memory: Memory, last: int) -> Float[Tensor, "batch out_len d_model"]:
        """Compute at least the `last` positions, and no others where cross-attention treats queries independently."""
        x = self.norm1(x + self.dropout(self.attention(x, x)))
        if self.cross.independent_queries:
            x = x[:, -last:]
        x = self.norm2(x + self.dropout(self.cross(x, memory)))
        return self.norm3(x + self.feed_forward(x))


class Decoder(nn.ModuleList):
    """Decoder layers in sequence; the output has the `last` positions only."""

    def forward(self, x: Tokens, memory: Memory, last: int) -> Float[Tensor, "batch {last} d_model"]:
        for layer in self[:-1]:
            x = layer(x, memory, last=x.shape[1])
        return self[-1](x, memory, last)[:, -last:]


def is_over_variables(layer: int) -> bool:
    """Whether a layer of axes, given by its number, reads the variables of a patch; the others read over time."""
    return layer % 2 == 1


class ChannelLayout(nn.Module):
    """The layout of several variables in the sequences that attention reads.

    mixed        one sequence of T tokens; a token holds a patch of all variables
    independent  one sequence of T tokens for each of the n target variables; no variable influences another
    joint        one sequence of n·T tokens; a token holds a patch of one variable, and a learnt embedding of the
                 variable is added to it
    axes         the tokens of joint; layers read the T tokens of a variable and the n tokens of a patch in turn, which
                 costs n·T² + T·n² pairs in place of (n·T)²

    In the methods, a channel is one sequence of tokens: all variables together (mixed), or one variable (the others).

    Sources: Zhou et al. 2021, Informer (mixed); Nie et al. 2023, PatchTST (independent); Woo et al. 2024, Moirai
    (joint); Ho et al. 2019, Axial Attention (axes).

    `extra`: variables of joint and axes beside the features, such as the covariates.

    Raises ValueError: `tokens` is none of these.
    """

    def __init__(self, tokens: str, n_features: int, d_model: int, *, extra: int = 0) -> None:
        super().__init__()
        check_choice("tokens", tokens, TOKENS)
        self.mixed, self.independent, self.joint, self.axes = (tokens == name for name in TOKENS)
        self.reads_variables = self.joint or self.axes  # as separate tokens
        self.n_variables = n_features + extra
        self.variables_per_token = n_features if self.mixed else 1
        self.variable_embedding = (
            nn.Parameter(EMBEDDING_SCALE * torch.randn(self.n_variables, 1, d_model)) if self.reads_variables else None
        )

    def split_channels(
        self, steps: Float[Tensor, "batch length n_features"], target_index: TargetIndex
    ) -> Float[Tensor, "batch channels length variables_per_token"]:
        """Split values into channels; with independent channels, those of the targets only."""
        if self.independent:
            steps = steps[..., target_index]
        return steps.unflatten(2, (-1, self.variables_per_token)).movedim(2, 1)

    def embed_variable(self, tokens: ByChannel) -> ByChannel:
        """Add the embedding of each channel's variable to its tokens, where attention reads variables."""
        return tokens if self.variable_embedding is None else tokens + self.variable_embedding

    def select_targets(
        self, tokens: ByChannel, target_index: TargetIndex
    ) -> Float[Tensor, "batch target_channels tokens d_model"]:
        return tokens[:, target_index] if self.reads_variables else tokens

    def to_sequences(self, tokens: ByChannel) -> Sequences:
        """Arrange channels as attention reads them: joint ones one after another, others as separate sequences."""
        return tokens.flatten(1, 2) if self.joint else tokens.flatten(0, 1)

    def from_sequences(self, sequences: Sequences, channels: int) -> Float[Tensor, "batch {channels} tokens d_model"]:
        if self.joint:
            return sequences.unflatten(1, (channels, -1))
        return sequences.unflatten(0, (-1, channels))

    def encode(self, encoder: Encoder, tokens: ByChannel) -> ByChannel:
        """Encode the tokens, of which the number does not change."""
        if not self.axes:
            return self.from_sequences(encoder(self.to_sequences(tokens)), tokens.shape[1])
        for number, layer in enumerate(encoder.layers):
            across = tokens.transpose(1, 2) if is_over_variables(number) else tokens
            across = layer(across.flatten(0, 1)).view_as(across)
            tokens = across.transpose(1, 2) if is_over_variables(number) else across
        return encoder.norm(tokens)
