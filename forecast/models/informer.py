"""Informers: as published, and residual."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention import Attention
from forecast.attention.base import check_sizes
from forecast.attention.dropout import Dropout
from forecast.models import embedding
from forecast.models.base import (
    AttentionLayer,
    ForecastModel,
    Positions,
    decoder_attention,
    encoder_attention,
    estimate_informer_size,
)
from forecast.models.layers import ChannelLayout, Decoder, DecoderLayer, Encoder, EncoderLayer, stack_encoder
from forecast.models.linear_model import FutureTime, Horizon, Outputs, Past, PastTime
from forecast.models.residual import POSITION_SCALE, ResidualModel

MakeAttention = Callable[..., Attention]


class AttentionSlots(TypedDict):
    """Constructors of the attention in each slot, called once per layer as `make(d_model, n_heads, dropout=...)`."""

    encoder: MakeAttention
    decoder: MakeAttention
    cross: MakeAttention
    variables: NotRequired[Mapping[str, MakeAttention]]  # in layers of an encoder that read over variables
    name: NotRequired[str]


class Informer(ForecastModel):
    """Encode the past and decode the whole horizon in one forward pass.

    The decoder reads the last `label_len` steps of the past and then `pred_len` steps of zeros, each with its time
    features; its outputs at these zeros are the forecast.

    Args:
        n_features, n_targets, n_time_features: columns read, columns forecast, time features of a step (from the data).
        n_quantiles: outputs of each target, side by side (see `models.residual.arrange_quantiles`).
        seq_len, label_len, pred_len: steps of the past, steps of it that the decoder reads again, steps forecast.
        attention: constructors of the attention in the slots `encoder`, `decoder` and `cross`.
        d_model, n_heads, d_ff: width of a token, heads that divide it, width inside the feed-forward.
        encoder_layers, decoder_layers: number of layers.
        distil: halve the sequence between encoder layers.
        share_layers: use one attention for all layers of an encoder, and one for all of the decoder (Fastformer).
        match: parameters: widen the feed-forward of layers whose attention has fewer parameters than softmax attention,
            and narrow the others, so that all attention types have equal parameter counts; None: do not.
        mix_heads, drop_weights: see `Attention`; the first in self-attention of the decoder. So does the authors' code.

    Raises ValueError: a length or size is out of range, or an attention type cannot serve the role of its slot.
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
        mix_heads: bool = False,
        drop_weights: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(seq_len=seq_len, pred_len=pred_len, d_model=d_model, d_ff=d_ff, n_heads=n_heads)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        check_label_len(seq_len, label_len)
        if share_layers and match is not None:
            raise ValueError(f"match={match} needs model.share_layers=false: it counts the attention of each layer")
        self.seq_len, self.label_len, self.pred_len = seq_len, label_len, pred_len
        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout, "match": match}

        def make_attention(slot: str, layers: int) -> list[Attention]:
            make: MakeAttention = attention[slot]
            made = [make(d_model, n_heads, dropout=dropout) for _ in range(1 if share_layers else layers)]
            for each in made:
                each.mix_heads, each.drop_weights = mix_heads and slot == "decoder", drop_weights
            return made * layers if share_layers else made

        def make_encoder(layers: int) -> Encoder:
            encoder = [EncoderLayer(a, **sizes) for a in make_attention("encoder", layers)]
            return Encoder(encoder, d_model, distil=distil)

        inputs: dict[str, Any] = {"d_model": d_model, "dropout": dropout}
        self.past_embedding = embedding.Embedding(n_features, n_time_features, max_length=seq_len, **inputs)
        decoded = label_len + pred_len
        self.future_embedding = embedding.Embedding(n_features, n_time_features, max_length=decoded, **inputs)
        self.encoder = self.build_encoder(make_encoder, encoder_layers)
        in_decoder, cross = (make_attention(slot, decoder_layers) for slot in ("decoder", "cross"))
        self.decoder = Decoder(DecoderLayer(own, other, **sizes) for own, other in zip(in_decoder, cross, strict=True))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_targets * n_quantiles)

    def build_encoder(self, make: Callable[[int], Encoder], layers: int) -> nn.Module:
        """Build the encoder from `make(number of layers)`."""
        return make(layers)

    def forward(self, past: Past, past_time: PastTime, future_time: FutureTime) -> Outputs:
        memory = self.encoder(self.past_embedding(past, past_time))
        start = past.shape[1] - self.label_len
        placeholders = past.new_zeros(past.shape[0], self.pred_len, past.shape[2])
        x = self.future_embedding(
            torch.cat([past[:, start:], placeholders], dim=1),  # (batch, label_len + pred_len, n_features)
            torch.cat([past_time[:, start:], future_time], dim=1),
        )
        return self.head(self.norm(self.decoder(x, memory, last=self.pred_len)))

    def encoder_attention(self) -> list[AttentionLayer]:
        assert isinstance(self.encoder, Encoder)
        return encoder_attention(self.encoder, Positions(np.arange(self.seq_len)))

    def attention_layers(self) -> list[AttentionLayer]:
        layers = self.encoder_attention()
        decoded = Positions(np.arange(self.seq_len - self.label_len, self.seq_len + self.pred_len))
        return layers + decoder_attention(self.decoder, decoded, layers, last=self.pred_len)


class EncoderStack(nn.Module):
    """Encoders of decreasing depth on the last full, half, quarter … of the input; their outputs are concatenated."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders: Iterable[Encoder] = nn.ModuleList(encoders)  # type: ignore[assignment]

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch joined d_model"]:
        length = x.shape[1]
        return torch.cat([encoder(x[:, -(length // 2**i) :]) for i, encoder in enumerate(self.encoders)], dim=1)


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
        layers = []
        for i, encoder in enumerate(self.encoder.encoders):
            tokens = Positions(np.arange(self.seq_len - self.seq_len // 2**i, self.seq_len))
            layers += encoder_attention(encoder, tokens, name=f"encoder.encoders.{i}", encoder_number=i)
        return layers


def check_label_len(seq_len: int, label_len: int) -> None:
    """Raise ValueError for a negative `label_len`, or one beyond the window."""
    if not 0 <= label_len <= seq_len:
        advice = f"set label_len={seq_len // 2}"
        raise ValueError(f"label_len={label_len} must lie between 0 and seq_len={seq_len}: {advice}")


class ResidualInformer(ResidualModel):
    """Forecast = linear model + shrinkage · correction by an encoder-decoder on patches; see `ResidualModel`.

    The encoder reads tokens of `patch_len` steps. The decoder reads the encoder's outputs for the last `label_len`
    steps, then one query for each patch of the horizon: the linear forecast and the time embedding of each step.

    Args:
        common: see `ResidualModel`.
        label_len, attention: see `Informer`.
        patch_len: steps in a token, at most seq_len. Only the linear model reads the oldest `seq_len % patch_len`
            steps; the decoder does not repeat the first `label_len % patch_len` of the label steps.
        time_stride: number of past steps that share one time embedding, or the next lower divisor of `patch_len`. Each
            step of the horizon has its own embedding. Checkpoints without this setting have 1.
        future_calendar: let the decoder read the time features of the horizon.
        d_model, n_heads, d_ff, encoder_layers, decoder_layers, dropout, match: see `Informer`.

    Raises ValueError: see `ResidualModel`, or an attention type cannot serve the role of its slot.
    """

    layouts = ("mixed", "independent", "joint")
    positions: Tensor
    estimate_size = staticmethod(estimate_informer_size)
    horizon_input = "the linear model's forecast and the time features"

    def __init__(
        self,
        *,
        label_len: int,
        attention: AttentionSlots,
        patch_len: int = 24,
        time_stride: int = 1,
        future_calendar: bool = True,
        d_model: int = 32,
        n_heads: int = 4,
        d_ff: int = 128,
        encoder_layers: int = 2,
        decoder_layers: int = 1,
        dropout: float = 0.3,
        match: str | None = None,
        **common: Any,
    ) -> None:
        check_sizes(d_model=d_model, d_ff=d_ff, n_heads=n_heads, patch_len=patch_len, time_stride=time_stride)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        super().__init__(**common)
        check_label_len(self.seq_len, label_len)
        self.future_calendar = future_calendar
        self.patch_len: int = min(patch_len, self.seq_len)
        self.time_stride = embedding.largest_divisor(self.patch_len, time_stride)
        self.past_tokens, self.label_tokens = self.seq_len // self.patch_len, label_len // self.patch_len
        self.future_tokens = -(-self.pred_len // self.patch_len)
        self.label_len = self.label_tokens * self.patch_len  # whole patches
        self.channels = ChannelLayout(self.tokens, self.n_features, d_model)
        self._build_embeddings(d_model, dropout)
        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout, "match": match}
        self._build_layers(attention, n_heads, (encoder_layers, decoder_layers), sizes)
        self.norm = nn.LayerNorm(d_model)
        self.head = embedding.StepHead(d_model, self.d_calendar, self.n_outputs, patch_len=self.patch_len)

    def _build_embeddings(self, d_model: int, dropout: float) -> None:
        d_time = self.d_calendar
        self.time_embedding = embedding.TimeEmbedding(self.n_time_features, d_time, dropout)
        width, patch_len = self.channels.variables_per_token, self.patch_len
        self.past_embedding = embedding.PatchEmbedding(width, d_time, d_model, patch_len=patch_len)
        self.future_embedding = embedding.PatchEmbedding(width, d_time, d_model, patch_len=patch_len)
        positions = embedding.sinusoidal_positions(self.past_tokens + self.future_tokens, d_model, POSITION_SCALE)
        self.register_buffer("positions", positions, persistent=False)
        self.dropout = Dropout(dropout)

    def _build_layers(
        self, attention: AttentionSlots, n_heads: int, layers: tuple[int, int], sizes: dict[str, Any]
    ) -> None:
        d_model, (encoder_layers, decoder_layers) = sizes["d_model"], layers
        options: dict[str, Any] = {"dropout": sizes["dropout"]}
        self.encoder = stack_encoder([attention["encoder"]] * encoder_layers, n_heads, **sizes)
        # The tokens of several variables have no common order in time that a causal layer could respect.
        role = {"role": "self"} if self.channels.joint else {}
        self.decoder = Decoder(
            DecoderLayer(
                attention["decoder"](d_model, n_heads, **options, **role),
                attention["cross"](d_model, n_heads, **options),
                **sizes,
            )
            for _ in range(decoder_layers)
        )

    def correct(self, past: Past, linear: Horizon, past_time: PastTime, future_time: FutureTime) -> Outputs:
        read = self.past_tokens * self.patch_len
        pooled = self.time_embedding.pool(past_time[:, -read:], self.time_stride)
        time = self.time_embedding(torch.cat([pooled, future_time], dim=1))[:, None]
        time_past, time_future = time.split([pooled.shape[1], self.pred_len], dim=2)
        time_future = embedding.pad_to_patches(time_future, self.patch_len)
        if not self.future_calendar:
            time_future = torch.zeros_like(time_future)
        channels, targets = self.channels, self.target_index
        past_values = channels.split_channels(past[:, -read:], targets)
        linear_values = embedding.pad_to_patches(channels.split_channels(linear, targets), self.patch_len)
        tokens = channels.embed_variable(self.past_embedding(past_values, time_past))
        queries = channels.embed_variable(self.future_embedding(linear_values, time_future))
        tokens = self.dropout(tokens + self.positions[: self.past_tokens])
        queries = self.dropout(queries + self.positions[self.past_tokens :])
        queries = channels.select_targets(queries, targets)
        memory = self.encoder(channels.to_sequences(tokens))
        labels = channels.from_sequences(memory, tokens.shape[1])
        labels = labels[:, :, self.past_tokens - self.label_tokens :]
        labels = channels.to_sequences(channels.select_targets(labels, targets))
        horizon = channels.to_sequences(queries)
        x = self.decoder(torch.cat([labels, horizon], dim=1), memory, last=horizon.shape[1])
        x = channels.from_sequences(self.norm(x), queries.shape[1])
        steps = self.head(x, time_future)[:, :, : self.pred_len]  # (batch, channels, pred_len, outputs)
        return steps.movedim(1, 2).flatten(2)

    def attention_layers(self) -> list[AttentionLayer]:
        """List the attention layers; see `patch_centres` for the steps of the tokens."""
        past, future = embedding.patch_centres(self.seq_len, self.pred_len, self.patch_len)
        labels = past[len(past) - self.label_tokens :]
        read = targets = None
        if self.channels.joint:  # one sequence holds all variables
            read, targets = np.arange(self.channels.n_variables), self.target_index.cpu().numpy()
        layers = encoder_attention(self.encoder, Positions.of(past, read))
        horizon = Positions.of(future, targets)  # follows the labels of all targets
        decoded = Positions.join([Positions.of(labels, targets), horizon])
        return layers + decoder_attention(self.decoder, decoded, layers, last=len(horizon))
