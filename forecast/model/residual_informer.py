"""An Informer on patches, for what a linear map leaves over."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.dropout import Dropout
from forecast.model.calendar import CalendarEmbedding
from forecast.model.embedding import sinusoidal_positions
from forecast.model.informer import AttentionSlots, check_lengths, check_sizes
from forecast.model.layers import Decoder, DecoderLayer, Encoder, EncoderLayer
from forecast.model.linear_path import LinearPath
from forecast.model.patches import PatchEmbedding, StepHead
from forecast.model.variables import Variables

EPS = 1e-5
"""Added to a window's variance, of scaled values."""

POSITIONS = 0.3
"""Size of the sinusoids beside tokens of unit size."""


class ResidualInformer(nn.Module):
    """Forecast = linear map of the window + what an encoder-decoder on patches adds to it, zero before training.

    The encoder reads the window as tokens of `patch_len` steps. The decoder reads what became of the last
    `label_len` steps, and then one query for each patch of the horizon, which carries what is known of it: the linear
    map's forecast and the calendar of every step, holidays included.

    Args:
        n_features, n_targets, n_time_features, seq_len, label_len, pred_len, attention: as of `Informer`.
        features: `M` forecasts every variable, `S` and `MS` one.
        tokens: what a token holds, and which are attended together: see `forecast.model.variables`.
        patch_len: steps a token, at most the whole window. Steps before the last whole patch of the window are left to
            the linear map.
        normalize: divide each window by its deviation, and the answer back (Kim et al. 2022, RevIN).
        linear: add to a linear map; else the encoder-decoder forecasts alone, from the window's mean.
        future_calendar: tell the decoder the horizon's calendar.
        d_model, n_heads, d_ff, encoder_layers, decoder_layers, dropout: as of `Informer`; d_calendar: width of a step's
            calendar.

    Raises:
        ValueError: a length or size that cannot work, or an attention asked for a role that it cannot serve.
    """

    targets: Tensor
    positions: Tensor

    def __init__(
        self,
        *,
        n_features: int,
        n_targets: int,
        n_time_features: int,
        seq_len: int,
        label_len: int,
        pred_len: int,
        attention: AttentionSlots,
        features: str = "M",
        tokens: str = "mixed",
        patch_len: int = 24,
        normalize: bool = True,
        linear: bool = True,
        future_calendar: bool = True,
        d_model: int = 32,
        n_heads: int = 4,
        d_ff: int = 128,
        d_calendar: int = 32,
        encoder_layers: int = 2,
        decoder_layers: int = 1,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        check_sizes(seq_len=seq_len, pred_len=pred_len, d_model=d_model, d_ff=d_ff, n_heads=n_heads)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers, d_calendar=d_calendar)
        check_sizes(patch_len=patch_len)
        check_lengths(seq_len, label_len, dropout)
        patch_len = min(patch_len, seq_len)
        self.label_len, self.pred_len, self.patch_len = label_len, pred_len, patch_len
        self.normalize, self.future_calendar = normalize, future_calendar
        self.variables = Variables(tokens, n_features, d_model)
        all_alike = features == "M" and not self.variables.mixed
        self.outputs = n_targets // n_features if all_alike else n_targets  # of a series
        self.past_tokens, self.label_tokens = seq_len // patch_len, label_len // patch_len
        self.future_tokens = -(-pred_len // patch_len)
        # of each output, the column it forecasts; −1: it says how far a quantile lies from another
        self.register_buffer("targets", torch.arange(n_targets))
        self.linear = LinearPath(seq_len, pred_len) if linear else None

        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout}
        self.calendar = CalendarEmbedding(n_time_features, d_calendar, dropout)
        width = self.variables.width
        self.past_embedding = PatchEmbedding(width, d_calendar, d_model, patch_len=patch_len)
        self.future_embedding = PatchEmbedding(width, d_calendar, d_model, patch_len=patch_len)
        table = POSITIONS * sinusoidal_positions(self.past_tokens + self.future_tokens, d_model)
        self.register_buffer("positions", table, persistent=False)
        self.dropout = Dropout(dropout)
        self.encoder = Encoder(
            [
                EncoderLayer(attention["encoder"](d_model, n_heads, dropout=dropout), **sizes)
                for _ in range(encoder_layers)
            ],
            d_model,
            distil=False,
        )
        self.decoder = Decoder(
            DecoderLayer(
                attention["decoder"](d_model, n_heads, dropout=dropout),
                attention["cross"](d_model, n_heads, dropout=dropout),
                **sizes,
            )
            for _ in range(decoder_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = StepHead(d_model, d_calendar, self.outputs, patch_len=patch_len)

    def start_from(
        self,
        weight: Float[Tensor, "seq_len pred_len"] | None,
        targets: Sequence[int],
        time_features: Sequence[str],
    ) -> None:
        """Take what is known before training: the linear map, each output's column, the time features' names."""
        if self.linear is not None and weight is not None:
            self.linear.weight.copy_(weight)
        self.targets.copy_(torch.tensor(targets))
        self.calendar.tell(time_features)

    def forward(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len n_targets"]:
        mean = past.mean(1, keepdim=True)
        centred = past - mean
        scale = (
            torch.sqrt(centred.square().mean(1, keepdim=True) + EPS)
            if self.normalize
            else torch.ones_like(mean)
        )
        linear = (
            self.linear(centred) if self.linear else past.new_zeros(len(past), self.pred_len, past.shape[2])
        )

        correction = self._correction(centred / scale, linear / scale, past_time, future_time)

        column = self.targets.clamp(min=0)
        return torch.where(
            self.targets >= 0,
            (mean + linear)[..., column] + scale[..., column] * correction,
            correction,
        )

    def _correction(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        linear: Float[Tensor, "batch pred_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len n_targets"]:
        """What the encoder-decoder adds, in windows of unit deviation."""
        read = self.past_tokens * self.patch_len
        calendar = self.calendar(torch.cat([past_time[:, -read:], future_time], dim=1))[:, None]
        past_calendar, future_calendar = calendar[:, :, :read], self._whole_patches(calendar[:, :, read:])
        if not self.future_calendar:
            future_calendar = torch.zeros_like(future_calendar)

        variables, columns = self.variables, self._columns()
        known = variables.series(past[:, -read:], columns)
        drawn = self._whole_patches(variables.series(linear, columns))
        tokens = variables.named(self.past_embedding(known, past_calendar))
        queries = variables.named(self.future_embedding(drawn, future_calendar))
        tokens = self.dropout(tokens + self.positions[: self.past_tokens])
        queries = self.dropout(queries + self.positions[self.past_tokens :])
        queries = variables.forecast(queries, columns)

        memory = self.encoder(variables.together(tokens))
        labels = variables.apart(memory, tokens.shape[1])[:, :, self.past_tokens - self.label_tokens :]
        labels = variables.together(variables.forecast(labels, columns))
        asking = variables.together(queries)
        x = self.decoder(torch.cat([labels, asking], dim=1), memory, last=asking.shape[1])
        x = variables.apart(self.norm(x), queries.shape[1])
        steps = self.head(x, future_calendar)[:, :, : self.pred_len]  # (batch, series, pred_len, outputs)
        return steps.movedim(1, 2).flatten(2)

    def _columns(self) -> Int[Tensor, " n_columns"]:
        """What the series that are forecast forecast: the middle of each one's outputs."""
        return self.targets.unflatten(0, (-1, self.outputs))[:, self.outputs // 2]

    def _whole_patches(
        self, steps: Float[Tensor, "batch series pred_len width"]
    ) -> Float[Tensor, "batch series padded width"]:
        """Zeros after the horizon's end, up to the end of its last patch."""
        return F.pad(steps, (0, 0, 0, self.future_tokens * self.patch_len - self.pred_len))
