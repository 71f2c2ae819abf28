"""Patch encoders: with attention, and with an MLP in place of attention."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.base import check_sizes
from forecast.attention.dropout import Dropout
from forecast.models.base import AttentionLayer, Positions, encoder_attention, estimate_informer_size
from forecast.models.embedding import StepHead, TimeEmbedding, pad_to_patches, patch_centres, sinusoidal_positions
from forecast.models.informer import AttentionSlots
from forecast.models.layers import TOKENS, ChannelLayout, is_over_variables, stack_encoder
from forecast.models.linear_model import FutureTime, Horizon, Outputs, Past, PastTime
from forecast.models.residual import POSITION_SCALE, ResidualModel


class PatchEncoder(ResidualModel):
    """Forecast = linear model + shrinkage · correction by an encoder on patches; see `ResidualModel`.

    The encoder reads tokens of `patch_len` steps: the past, then the linear model's forecast. A hidden layer reads all
    outputs for a variable together, and a `StepHead` turns the hidden layer and the time embedding of each step of the
    horizon into the correction. With `joint` and `axes`, the time features (calendar and future covariates) of the
    past and of the horizon are one more variable, whose tokens the others read, as in TimeXer (Wang et al. 2024).
    Otherwise those of the past are not read.

    Args:
        common: see `ResidualModel`.
        attention: the slot `encoder` is used. With `axes`, the layers over variables are of the type in the slot
            `variables`, if there is one.
        patch_len: steps in a token, at most seq_len. Only the linear model reads the oldest `seq_len % patch_len`
            steps.
        d_model, n_heads, d_ff, encoder_layers, dropout, match: see `Informer`.
        d_hidden: width of the hidden layer that reads all tokens of a channel.

    Raises ValueError: see `ResidualModel`, or the attention type cannot serve the encoder.
    """

    layouts = TOKENS
    positions: Tensor
    estimate_size = staticmethod(estimate_informer_size)

    def __init__(
        self,
        *,
        attention: AttentionSlots,
        tokens: str = "independent",
        patch_len: int = 24,
        d_model: int = 32,
        n_heads: int = 4,
        d_ff: int = 128,
        d_hidden: int = 128,
        encoder_layers: int = 2,
        dropout: float = 0.3,
        match: str | None = None,
        **common: Any,
    ) -> None:
        check_sizes(d_model=d_model, d_ff=d_ff, n_heads=n_heads, d_hidden=d_hidden)
        check_sizes(encoder_layers=encoder_layers, patch_len=patch_len)
        super().__init__(tokens=tokens, **common)
        self.patch_len: int = min(patch_len, self.seq_len)
        self.past_tokens, n_time_features = self.seq_len // self.patch_len, self.n_time_features
        length = self.past_tokens + -(-self.pred_len // self.patch_len)
        extra = 1 if n_time_features else 0
        self.channels = ChannelLayout(tokens, self.n_features, d_model, extra=extra)
        self.embedding = nn.Linear(self.patch_len * self.channels.variables_per_token, d_model)
        reads_time = self.channels.reads_variables and n_time_features
        self.time_tokens = nn.Linear(self.patch_len * n_time_features, d_model) if reads_time else None
        self.further_variables = ("time features",) if reads_time else ()
        self.register_buffer("positions", sinusoidal_positions(length, d_model, POSITION_SCALE), persistent=False)
        self.time_embedding = TimeEmbedding(n_time_features, self.d_calendar, dropout)
        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout, "match": match}
        over_time = attention["encoder"]
        over_variables = attention.get("variables", attention)["encoder"] if self.channels.axes else over_time
        in_turn = [over_variables if is_over_variables(i) else over_time for i in range(encoder_layers)]
        self.encoder = stack_encoder(in_turn, n_heads, **sizes)
        self.dropout = Dropout(dropout)
        self.hidden = nn.Linear(length * d_model, d_hidden)
        self.head = StepHead(d_hidden, self.d_calendar, self.n_outputs, patch_len=self.pred_len)

    def correct(self, past: Past, linear: Horizon, past_time: PastTime, future_time: FutureTime) -> Outputs:
        channels, targets, read = self.channels, self.target_index, self.past_tokens * self.patch_len
        values = channels.split_channels(torch.cat([past[:, -read:], linear], dim=1), targets)
        tokens = self.embedding(self._patches(values))
        if self.time_tokens is not None:
            tokens = torch.cat([tokens, self.time_tokens(self._patches(self._time(past_time, future_time)))], dim=1)
        tokens = self.dropout(channels.embed_variable(tokens) + self.positions)
        encoded = channels.encode(self.encoder, tokens)
        encoded = channels.select_targets(encoded, targets).flatten(2)  # (batch, channels, tokens · d_model)
        hidden = self.dropout(F.gelu(self.hidden(encoded)))
        outputs = self.head(hidden[:, :, None], self.time_embedding(future_time)[:, None])
        return outputs.movedim(1, 2).flatten(2)

    def _patches(
        self, steps: Float[Tensor, "batch channels length width"]
    ) -> Float[Tensor, "batch channels tokens patch_values"]:
        return pad_to_patches(steps, self.patch_len).unflatten(2, (-1, self.patch_len)).flatten(3)

    def _time(self, past_time: Tensor, future_time: Tensor) -> Float[Tensor, "batch 1 length n_time_features"]:
        """Calendar features, and covariates relative to the past, of the steps that the tokens stand for.

        Calendar features are not shifted at random here, as `TimeEmbedding` does.
        """
        calendar = torch.cat([past_time, future_time], dim=1) * self.time_embedding.is_calendar
        time = calendar + self.time_embedding.relative_covariates(past_time, future_time)
        return time[:, None, self.seq_len - self.past_tokens * self.patch_len :]

    def attention_layers(self) -> list[AttentionLayer]:
        """List the attention layers; see `patch_centres` for the steps of the tokens.

        With axes, every second layer reads the variables of one patch, which all have the step of the last one.
        """
        steps = np.concatenate(patch_centres(self.seq_len, self.pred_len, self.patch_len))
        variables = np.arange(self.channels.n_variables)
        joint = variables if self.channels.joint else None  # one sequence holds all variables
        layers = encoder_attention(self.encoder, Positions.of(steps, joint))
        across = Positions.of(steps[-1:], variables)
        return [
            replace(layer, slot="variables", queries=across, memory=across)
            if self.channels.axes and is_over_variables(layer.number)
            else layer
            for layer in layers
        ]


class ResidualMLP(ResidualModel):
    """Forecast = linear model + shrinkage · correction by a multilayer perceptron; see `ResidualModel`.

    The first layer reads all steps of the past, the linear model's forecast, and all steps of the covariates relative
    to their mean and standard deviation over the past. The head adds the time embedding of each step of the horizon.

    Args:
        common: see `ResidualModel`. `tokens=mixed` reads all columns together, `independent` each target alone, with
            the same weights.
        dropout: after each hidden layer.
    """

    layouts = ("mixed", "independent")

    def __init__(self, *, d_hidden: int = 256, hidden_layers: int = 2, dropout: float = 0.3, **common: Any) -> None:
        check_sizes(d_hidden=d_hidden, hidden_layers=hidden_layers)
        super().__init__(**common)
        columns = self.n_features if self.tokens == "mixed" else 1
        width = (self.seq_len + self.pred_len) * (columns + self.n_time_features)
        layers: list[nn.Module] = []
        for _ in range(hidden_layers):
            layers += [nn.Linear(width, d_hidden), nn.GELU(), Dropout(dropout)]
            width = d_hidden
        self.layers = nn.Sequential(*layers)
        self.time_embedding = TimeEmbedding(self.n_time_features, self.d_calendar, dropout)
        self.head = StepHead(d_hidden, self.d_calendar, self.n_outputs, patch_len=self.pred_len)

    def correct(self, past: Past, linear: Horizon, past_time: PastTime, future_time: FutureTime) -> Outputs:
        values = torch.cat([past, linear], dim=1)
        mixed = self.tokens == "mixed"
        channels = values.flatten(1)[:, None] if mixed else values[..., self.target_index].mT
        # the head reads the calendar
        covariates = self.time_embedding.relative_covariates(past_time, future_time).flatten(1)[:, None]
        read = torch.cat([channels, covariates.expand(-1, channels.shape[1], -1)], dim=2)
        steps = self.head(self.layers(read)[:, :, None], self.time_embedding(future_time)[:, None])
        return steps.movedim(1, 2).flatten(2)
