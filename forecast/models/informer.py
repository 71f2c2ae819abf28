"""The Informer (Zhou et al., AAAI 2021, arXiv:2012.07436) with a choice of attention in each slot."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention import Attention
from forecast.models.attention_layers import AttentionLayer, decoder_attention, encoder_attention
from forecast.models.base import ForecastModel
from forecast.models.embedding import Embedding
from forecast.models.layers import Decoder, DecoderLayer, Encoder, EncoderLayer
from forecast.models.size import estimate_informer_size

MakeAttention = Callable[..., Attention]


class AttentionSlots(TypedDict):
    """Constructors of the attention in each slot, called once per layer as `make(d_model, n_heads, dropout=...)`."""

    encoder: MakeAttention
    decoder: MakeAttention
    cross: MakeAttention
    variables: NotRequired["VariableSlots"]
    name: NotRequired[str]


class VariableSlots(TypedDict):
    """Constructors of the attention in layers over variables, which are layers of an encoder."""

    encoder: MakeAttention


class Informer(ForecastModel):
    """Encode the past and decode the whole horizon in one forward pass.

    The decoder reads the last `label_len` steps of the past and then `pred_len` steps of zeros, each with its time
    features; its outputs at these zeros are the forecast.

    Args:
        n_features, n_targets, n_time_features: columns read, columns forecast, time features of a step (from the data).
        n_quantiles: outputs of each target, side by side (see `models.quantile_head`).
        seq_len, label_len, pred_len: steps of the past, steps of it that the decoder reads again, steps forecast.
        attention: constructors of the attention in the slots `encoder`, `decoder` and `cross`.
        d_model, n_heads, d_ff: width of a token, heads that divide it, width inside the feed-forward.
        encoder_layers, decoder_layers: number of layers.
        distil: halve the sequence between encoder layers.
        share_layers: use one attention for all layers of an encoder, and one for all of the decoder (Fastformer).
        match: parameters: widen the feed-forward of layers whose attention has fewer parameters than softmax attention,
            and narrow the others, so that all attention types have equal parameter counts; None: do not.

    Raises:
        ValueError: a length or size is out of range, or an attention type cannot serve the role of its slot.
    """

    estimate_size = staticmethod(estimate_informer_size)

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
        match: str | None = None,
    ) -> None:
        super().__init__()
        check_sizes(seq_len=seq_len, pred_len=pred_len, d_model=d_model, d_ff=d_ff, n_heads=n_heads)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        check_label_len(seq_len, label_len)
        if share_layers and match is not None:
            raise ValueError(
                f"match={match} needs model.share_layers=false: it counts the attention of each layer"
            )
        self.seq_len, self.label_len, self.pred_len = seq_len, label_len, pred_len
        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout, "match": match}

        def make_attention(slot: str, layers: int) -> list[Attention]:
            make: MakeAttention = attention[slot]
            made = [make(d_model, n_heads, dropout=dropout) for _ in range(1 if share_layers else layers)]
            return made * layers if share_layers else made

        def make_encoder(layers: int) -> Encoder:
            encoder = [EncoderLayer(a, **sizes) for a in make_attention("encoder", layers)]
            return Encoder(encoder, d_model, distil=distil)

        inputs: dict[str, Any] = {"d_model": d_model, "dropout": dropout}
        self.past_embedding = Embedding(n_features, n_time_features, max_length=seq_len, **inputs)
        decoded = label_len + pred_len
        self.future_embedding = Embedding(n_features, n_time_features, max_length=decoded, **inputs)
        self.encoder = self.build_encoder(make_encoder, encoder_layers)
        in_decoder, cross = (make_attention(slot, decoder_layers) for slot in ("decoder", "cross"))
        self.decoder = Decoder(
            DecoderLayer(own, other, **sizes) for own, other in zip(in_decoder, cross, strict=True)
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_targets * n_quantiles)

    def build_encoder(self, make: Callable[[int], Encoder], layers: int) -> nn.Module:
        """Build the encoder from `make(number of layers)`."""
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

    def encoder_attention(self) -> list[AttentionLayer]:
        """List the attention layers of the encoder or encoders."""
        assert isinstance(self.encoder, Encoder)
        return encoder_attention(self.encoder, np.arange(self.seq_len))

    def attention_layers(self) -> list[AttentionLayer]:
        layers = self.encoder_attention()
        decoded = np.arange(self.seq_len - self.label_len, self.seq_len + self.pred_len)
        return layers + decoder_attention(self.decoder, decoded, layers, last=self.pred_len)


class EncoderStack(nn.Module):
    """Encoders of decreasing depth on the last full, half, quarter … of the input; their outputs are concatenated."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders: Iterable[Encoder] = nn.ModuleList(encoders)  # type: ignore[assignment]

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch joined d_model"]:
        length = x.shape[1]
        return torch.cat(
            [encoder(x[:, -(length // 2**i) :]) for i, encoder in enumerate(self.encoders)], dim=1
        )

    def attention_layers(self, seq_len: int) -> list[AttentionLayer]:
        """List the attention layers of all encoders, in order."""
        return [
            layer
            for i, encoder in enumerate(self.encoders)
            for layer in encoder_attention(
                encoder,
                np.arange(seq_len - seq_len // 2**i, seq_len),
                name=f"encoder.encoders.{i}",
                encoder_number=i,
            )
        ]


class InformerStack(Informer):
    """The Informer with a stack of encoders of `encoder_layers`, `encoder_layers` − 1, …, 1 layers."""

    def __init__(self, *, seq_len: int, encoder_layers: int = 3, **sizes: Any) -> None:
        check_sizes(seq_len=seq_len, encoder_layers=encoder_layers)
        if seq_len < 2 ** (encoder_layers - 1):
            raise ValueError(f"seq_len={seq_len} cannot be halved for a stack of {encoder_layers} encoders")
        super().__init__(seq_len=seq_len, encoder_layers=encoder_layers, **sizes)

    def build_encoder(self, make: Callable[[int], Encoder], layers: int) -> nn.Module:
        return EncoderStack([make(n) for n in range(layers, 0, -1)])

    def encoder_attention(self) -> list[AttentionLayer]:
        assert isinstance(self.encoder, EncoderStack)
        return self.encoder.attention_layers(self.seq_len)


def check_sizes(**sizes: int) -> None:
    """Raise ValueError for the first size that is not a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}={size!r} must be a whole number of at least 1")


def check_label_len(seq_len: int, label_len: int) -> None:
    """Raise ValueError for a negative `label_len`, or one beyond the window."""
    if not 0 <= label_len <= seq_len:
        advice = f"set label_len={seq_len // 2}"
        raise ValueError(f"label_len={label_len} must lie between 0 and seq_len={seq_len}: {advice}")
