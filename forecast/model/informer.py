"""The Informer (Zhou et al., AAAI 2021, arXiv:2012.07436), its attention chosen slot by slot."""

from collections.abc import Callable, Sequence
from typing import Any, NotRequired, TypedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention import Attention
from forecast.model.embedding import Embedding
from forecast.model.layers import Decoder, DecoderLayer, Encoder, EncoderLayer

MakeAttention = Callable[..., Attention]


class AttentionSlots(TypedDict):
    """What makes the attention of each slot, called with `(d_model, n_heads, dropout=...)` once a layer."""

    encoder: MakeAttention
    decoder: MakeAttention
    cross: MakeAttention
    name: NotRequired[str]


class Informer(nn.Module):
    """Encode the past, decode the whole horizon in one forward pass.

    Args:
        n_features, n_targets, n_time_features: columns read, columns forecast, calendar features (from the data).
        n_quantiles: outputs of each column that is forecast, side by side.
        seq_len, label_len, pred_len: steps read; steps of them repeated to the decoder; steps forecast.
        attention: what makes the attention of the slots `encoder`, `decoder` and `cross`.
        d_model, n_heads, d_ff: width of the tokens, heads that share it, width inside the feed-forward.
        encoder_layers, decoder_layers: how many of each.
        distil: halve the sequence between encoder layers.
        share_layers: one attention for all layers of an encoder, and one for the decoder's (as Fastformer may).

    Raises:
        ValueError: a length or size that cannot work, or an attention asked for a role that it cannot serve.
    """

    def __init__(
        self,
        *,
        n_features: int,
        n_targets: int,
        n_time_features: int,
        n_quantiles: int = 1,
        seq_len: int,
        label_len: int,
        pred_len: int,
        attention: AttentionSlots,
        d_model: int = 512,
        n_heads: int = 8,
        d_ff: int = 2048,
        encoder_layers: int = 2,
        decoder_layers: int = 1,
        dropout: float = 0.05,
        distil: bool = True,
        share_layers: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(seq_len=seq_len, pred_len=pred_len, d_model=d_model, d_ff=d_ff, n_heads=n_heads)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        check_lengths(seq_len, label_len, dropout)
        self.label_len, self.pred_len = label_len, pred_len
        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout}

        def attentions(make: MakeAttention, layers: int) -> list[Attention]:
            made = [make(d_model, n_heads, dropout=dropout) for _ in range(1 if share_layers else layers)]
            return made * layers if share_layers else made

        self.past_embedding = Embedding(
            n_features, n_time_features, d_model, max_length=seq_len, dropout=dropout
        )
        self.future_embedding = Embedding(
            n_features, n_time_features, d_model, max_length=label_len + pred_len, dropout=dropout
        )
        self.encoder = self.build_encoder(
            lambda layers: Encoder(
                [EncoderLayer(a, **sizes) for a in attentions(attention["encoder"], layers)],
                d_model,
                distil=distil,
            ),
            encoder_layers,
        )
        self.decoder = Decoder(
            DecoderLayer(a, c, **sizes)
            for a, c in zip(
                attentions(attention["decoder"], decoder_layers),
                attentions(attention["cross"], decoder_layers),
                strict=True,
            )
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_targets * n_quantiles)

    def build_encoder(self, make: Callable[[int], Encoder], layers: int) -> nn.Module:
        return make(layers)

    def forward(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len outputs"]:
        memory = self.encoder(self.past_embedding(past, past_time))
        start = past.shape[1] - self.label_len
        placeholders = past.new_zeros(past.shape[0], self.pred_len, past.shape[2])
        x = self.future_embedding(
            torch.cat([past[:, start:], placeholders], dim=1),  # (batch, label_len + pred_len, n_features)
            torch.cat([past_time[:, start:], future_time], dim=1),
        )
        return self.head(self.norm(self.decoder(x, memory, last=self.pred_len)))


class EncoderStack(nn.Module):
    """Encoders of fewer and fewer layers on the last full, half, quarter … of the input, their outputs joined."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch joined d_model"]:
        length = x.shape[1]
        return torch.cat(
            [encoder(x[:, -(length // 2**i) :]) for i, encoder in enumerate(self.encoders)], dim=1
        )


class InformerStack(Informer):
    """The Informer with a pyramid of encoders: `encoder_layers`, one fewer on the last half, … down to one."""

    def __init__(self, *, seq_len: int, encoder_layers: int = 3, **sizes: Any) -> None:
        check_sizes(seq_len=seq_len, encoder_layers=encoder_layers)
        if seq_len < 2 ** (encoder_layers - 1):
            raise ValueError(f"seq_len={seq_len} cannot be halved for a stack of {encoder_layers} encoders")
        super().__init__(seq_len=seq_len, encoder_layers=encoder_layers, **sizes)

    def build_encoder(self, make: Callable[[int], Encoder], layers: int) -> nn.Module:
        return EncoderStack([make(n) for n in range(layers, 0, -1)])


def check_sizes(**sizes: int) -> None:
    """Raise ValueError for the first size that is not a whole number of at least one."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}={size!r} must be a whole number of at least 1")


def check_lengths(seq_len: int, label_len: int, dropout: float) -> None:
    """Raise ValueError for a label that is no part of the window, or a dropout that is no share."""
    if not 0 <= label_len <= seq_len:
        raise ValueError(f"label_len={label_len} must lie between 0 and seq_len={seq_len}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout} must be at least 0 and below 1")
