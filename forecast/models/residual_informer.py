"""An Informer on patches that corrects the forecast of a linear model."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import check_choice
from forecast.attention.dropout import Dropout
from forecast.models.attention_layers import AttentionLayer, decoder_attention, encoder_attention
from forecast.models.channels import ChannelLayout
from forecast.models.embedding import sinusoidal_positions
from forecast.models.informer import AttentionSlots, check_label_len, check_sizes
from forecast.models.layers import Decoder, DecoderLayer, stack_encoder
from forecast.models.patches import (
    PatchEmbedding,
    StepHead,
    largest_divisor,
    pad_to_patches,
    patch_centres,
)
from forecast.models.residual import POSITION_SCALE, ResidualModel
from forecast.models.size import estimate_informer_size
from forecast.models.time_embedding import TimeEmbedding


class ResidualInformer(ResidualModel):
    """Forecast = linear model + shrinkage · correction by an encoder-decoder on patches; see `ResidualModel`.

    The encoder reads tokens of `patch_len` steps. The decoder reads the encoder's outputs for the last `label_len`
    steps, then one query for each patch of the horizon: the linear forecast and the time embedding of each step.

    Args:
        n_features, n_targets, n_time_features, n_quantiles, seq_len, label_len, pred_len, attention: see `Informer`.
        tokens: channel handling, `mixed`, `independent` or `joint`; see `models.channels`.
        patch_len: steps in a token, at most seq_len. Only the linear model reads the oldest `seq_len % patch_len`
            steps; the decoder does not repeat the first `label_len % patch_len` of the label steps.
        time_stride: number of past steps that share one time embedding, or the next lower divisor of `patch_len`. Each
            step of the horizon has its own embedding. Checkpoints without this setting have 1.
        normalize, linear: see `ResidualModel`.
        future_calendar: let the decoder read the time features of the horizon.
        d_model, n_heads, d_ff, encoder_layers, decoder_layers, dropout, match: see `Informer`.
        d_calendar: width of the time embedding of a step.

    Raises:
        ValueError: a length or size is out of range, or an attention type cannot serve the role of its slot.
    """

    positions: Tensor
    estimate_size = staticmethod(estimate_informer_size)
    horizon_input = "the linear model's forecast and the time features"

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
        time_stride: int = 1,
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
        match: str | None = None,
    ) -> None:
        check_sizes(seq_len=seq_len, pred_len=pred_len, d_model=d_model, d_ff=d_ff, n_heads=n_heads)
        check_sizes(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        check_sizes(d_calendar=d_calendar, patch_len=patch_len, time_stride=time_stride)
        check_label_len(seq_len, label_len)
        check_choice("tokens", tokens, ("mixed", "independent", "joint"))
        super().__init__(
            n_targets=n_targets, n_quantiles=n_quantiles, seq_len=seq_len, pred_len=pred_len,
            shares_outputs=tokens != "mixed", normalize=normalize, linear=linear,
        )  # fmt: skip
        self.future_calendar = future_calendar
        self.patch_len: int = min(patch_len, seq_len)
        self.time_stride = largest_divisor(self.patch_len, time_stride)
        self.past_tokens, self.label_tokens = seq_len // self.patch_len, label_len // self.patch_len
        self.future_tokens = -(-pred_len // self.patch_len)
        self.label_len = self.label_tokens * self.patch_len  # whole patches
        self.tokens, self.channels = tokens, ChannelLayout(tokens, n_features, d_model)
        self._build_embeddings(n_time_features, d_calendar, d_model, dropout)
        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout, "match": match}
        self._build_layers(attention, n_heads, (encoder_layers, decoder_layers), sizes)
        self.norm = nn.LayerNorm(d_model)
        self.head = StepHead(d_model, d_calendar, self.n_outputs, patch_len=self.patch_len)

    def _build_embeddings(self, n_time_features: int, d_time: int, d_model: int, dropout: float) -> None:
        self.time_embedding = TimeEmbedding(n_time_features, d_time, dropout)
        width, patch_len = self.channels.variables_per_token, self.patch_len
        self.past_embedding = PatchEmbedding(width, d_time, d_model, patch_len=patch_len)
        self.future_embedding = PatchEmbedding(width, d_time, d_model, patch_len=patch_len)
        positions = sinusoidal_positions(self.past_tokens + self.future_tokens, d_model, POSITION_SCALE)
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

    def correct(
        self,
        past: Float[Tensor, "batch seq_len n_features"],
        linear: Float[Tensor, "batch pred_len n_features"],
        past_time: Float[Tensor, "batch seq_len n_time_features"],
        future_time: Float[Tensor, "batch pred_len n_time_features"],
    ) -> Float[Tensor, "batch pred_len outputs"]:
        read = self.past_tokens * self.patch_len
        pooled = self.time_embedding.pool(past_time[:, -read:], self.time_stride)
        time = self.time_embedding(torch.cat([pooled, future_time], dim=1))[:, None]
        time_past, time_future = time.split([pooled.shape[1], self.pred_len], dim=2)
        time_future = pad_to_patches(time_future, self.patch_len)
        if not self.future_calendar:
            time_future = torch.zeros_like(time_future)
        channels, targets = self.channels, self.target_index
        past_values = channels.split_channels(past[:, -read:], targets)
        linear_values = pad_to_patches(channels.split_channels(linear, targets), self.patch_len)
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
        past, future = patch_centres(self.seq_len, self.pred_len, self.patch_len)
        labels = past[len(past) - self.label_tokens :]
        if not self.channels.joint:
            layers = encoder_attention(self.encoder, past)
            decoded = np.concatenate([labels, future])
            return layers + decoder_attention(self.decoder, decoded, layers, last=len(future))
        # one sequence holds all variables; in the decoder, the labels of all targets precede all horizons
        read, targets = np.arange(self.channels.n_variables), self.target_index.cpu().numpy()
        layers = encoder_attention(self.encoder, np.tile(past, len(read)), np.repeat(read, len(past)))
        decoded = np.concatenate([np.tile(part, len(targets)) for part in (labels, future)])
        variables = np.concatenate([np.repeat(targets, len(part)) for part in (labels, future)])
        last = len(targets) * len(future)
        return layers + decoder_attention(self.decoder, decoded, layers, last=last, variables=variables)
