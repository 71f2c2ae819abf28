"""An Informer on patches, for what a linear map leaves over."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
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
from forecast.quantiles import raw_gap

EPS = 1e-5
"""Added to a window's variance, of scaled values."""

LEAST_GAP = 1e-6
"""Between two quantiles, of scaled values."""

POSITIONS = 0.3
"""Size of the sinusoids beside tokens of unit size."""


class ResidualInformer(nn.Module):
    """Forecast = linear map of the window + a share of what an encoder-decoder on patches adds, zero before training.

    The share is 1 in training; validation windows choose that of the model which is kept (`forecast.share`).

    The encoder reads the window as tokens of `patch_len` steps. The decoder reads what became of the last
    `label_len` steps, and then one query for each patch of the horizon, which carries what is known of it: the linear
    map's forecast and the calendar of every step, holidays included.

    Args:
        n_features, n_targets, n_time_features, n_quantiles, seq_len, label_len, pred_len, attention: as of `Informer`.
        tokens: what a token holds, and which are attended together: see `forecast.model.variables`.
        patch_len: steps a token, at most the whole window. The oldest `seq_len % patch_len` steps of the window are
            read by the linear map alone, the first `label_len % patch_len` of the label steps not repeated.
        normalize: divide each window by its deviation, and the answer back (Kim et al. 2022, RevIN).
        linear: add to a linear map; else the encoder-decoder forecasts alone, from the window's mean.
        future_calendar: tell the decoder the horizon's calendar.
        d_model, n_heads, d_ff, encoder_layers, decoder_layers, dropout: as of `Informer`; d_calendar: width of a step's
            calendar.

    Raises:
        ValueError: a length or size that cannot work, or an attention asked for a role that it cannot serve.
    """

    targets: Tensor
    share: Tensor
    positions: Tensor

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
        self.n_quantiles = n_quantiles
        self.past_tokens, self.label_tokens = seq_len // patch_len, label_len // patch_len
        self.future_tokens = -(-pred_len // patch_len)
        # the columns that are forecast, among those read
        self.register_buffer("targets", torch.arange(n_targets))
        self.register_buffer("share", torch.ones(()))
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
        # What queries hold is known, and those of several variables have no order to be causal in.
        role: dict[str, Any] = {"role": "self"} if self.variables.joint else {}
        self.decoder = Decoder(
            DecoderLayer(
                attention["decoder"](d_model, n_heads, dropout=dropout, **role),
                attention["cross"](d_model, n_heads, dropout=dropout),
                **sizes,
            )
            for _ in range(decoder_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        outputs = n_quantiles * n_targets if self.variables.mixed else n_quantiles  # of a series
        self.head = StepHead(d_model, d_calendar, outputs, patch_len=patch_len)

    def start_from(
        self,
        weight: Float[Tensor, "seq_len pred_len"] | None,
        targets: Sequence[int],
        time_features: Sequence[str],
    ) -> None:
        """Take what is known before training: the linear map, the columns forecast, the time features' names."""
        if self.linear is not None and weight is not None:
            self.linear.weight.copy_(weight)
        self.targets.copy_(torch.tensor(targets))
        self.calendar.tell(time_features)

    def spread(self, quantiles: Float[Tensor, "n_targets n_quantiles"]) -> None:
        """Begin with quantiles as far apart as these, in deviations of a window."""
        gaps = quantiles.diff(dim=1).clamp(min=LEAST_GAP).float()
        gaps = gaps if self.variables.mixed else gaps.mean(0, keepdim=True)
        bias, middle = self.head.out.bias.data.unflatten(0, (-1, self.n_quantiles)), self.n_quantiles // 2
        raw = raw_gap(gaps)
        bias[:, :middle], bias[:, middle + 1 :] = raw[:, :middle], raw[:, middle:]

    def linear_forecast(
        self, centred: Float[Tensor, "batch seq_len n_features"]
    ) -> Float[Tensor, "batch pred_len n_features"]:
        """The linear map's, of windows less their mean; without one, that mean."""
        if self.linear is None:
            return centred.new_zeros(len(centred), self.pred_len, centred.shape[2])
        return self.linear(centred)

    def deviation(
        self, centred: Float[Tensor, "batch seq_len n_features"]
    ) -> Float[Tensor, "batch 1 n_features"]:
        """By which windows, less their mean, are divided."""
        if not self.normalize:
            return torch.ones_like(centred[:, :1])
        return torch.sqrt(centred.square().mean(1, keepdim=True) + EPS)

    def forward(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len outputs"]:
        mean = past.mean(1, keepdim=True)
        centred = past - mean
        scale, linear = self.deviation(centred), self.linear_forecast(centred)
        correction = self._correction(centred / scale, linear / scale, past_time, future_time)
        correction = correction.unflatten(2, (-1, self.n_quantiles))
        scale = scale[..., self.targets, None]
        median = (mean + linear)[..., self.targets, None] + self.share * scale * correction
        if self.n_quantiles == 1:
            return median.flatten(2)
        # The middle output of a column is its median, the others are how far quantiles lie apart.
        gaps = (scale * F.softplus(correction - 1)).clamp(min=LEAST_GAP)
        is_median = torch.arange(self.n_quantiles, device=past.device) == self.n_quantiles // 2
        return torch.where(is_median, median, raw_gap(gaps)).flatten(2)

    def _correction(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        linear: Float[Tensor, "batch pred_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len outputs"]:
        """What the encoder-decoder adds, in windows of unit deviation."""
        read = self.past_tokens * self.patch_len
        calendar = self.calendar(torch.cat([past_time[:, -read:], future_time], dim=1))[:, None]
        past_calendar, future_calendar = calendar[:, :, :read], self._whole_patches(calendar[:, :, read:])
        if not self.future_calendar:
            future_calendar = torch.zeros_like(future_calendar)

        variables, columns = self.variables, self.targets
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

    def _whole_patches(
        self, steps: Float[Tensor, "batch series pred_len width"]
    ) -> Float[Tensor, "batch series padded width"]:
        """Zeros after the horizon's end, up to the end of its last patch."""
        return F.pad(steps, (0, 0, 0, self.future_tokens * self.patch_len - self.pred_len))


def medians_alone(state: Mapping[str, Tensor], n_quantiles: int) -> dict[str, Tensor]:
    """The weights of a model with `n_quantiles` outputs a column, as those of one with the middle output alone."""
    middle = slice(n_quantiles // 2, None, n_quantiles)
    return {name: value[middle] if "head.out." in name else value for name, value in state.items()}
