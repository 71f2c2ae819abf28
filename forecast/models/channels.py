"""Channel handling: the variables that a token holds, and the tokens that attention reads together."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from forecast.attention.base import check_choice
from forecast.models.layers import Encoder

TOKENS = ("mixed", "independent", "joint", "axes")
EMBEDDING_SCALE = 0.3
"""Initial standard deviation of the variable embeddings; that of tokens is about 1."""


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

    Args:
        extra: variables of joint and axes beside the features, such as the covariates.

    Raises:
        ValueError: `tokens` is none of these.
    """

    def __init__(self, tokens: str, n_features: int, d_model: int, *, extra: int = 0) -> None:
        super().__init__()
        check_choice("tokens", tokens, TOKENS)
        self.mixed, self.independent, self.joint, self.axes = (tokens == name for name in TOKENS)
        self.reads_variables = self.joint or self.axes  # as separate tokens
        self.n_variables = n_features + extra
        self.variables_per_token = n_features if self.mixed else 1
        self.variable_embedding = (
            nn.Parameter(EMBEDDING_SCALE * torch.randn(self.n_variables, 1, d_model))
            if self.reads_variables
            else None
        )

    def split_channels(
        self, steps: Float[Tensor, "batch length n_features"], target_index: Int[Tensor, " n_targets"]
    ) -> Float[Tensor, "batch channels length variables_per_token"]:
        """Split values into channels; with independent channels, those of the targets only."""
        if self.independent:
            steps = steps[..., target_index]
        return steps.unflatten(2, (-1, self.variables_per_token)).movedim(2, 1)

    def embed_variable(
        self, tokens: Float[Tensor, "batch channels tokens d_model"]
    ) -> Float[Tensor, "batch channels tokens d_model"]:
        """Add the embedding of each channel's variable to its tokens, where attention reads variables."""
        return tokens if self.variable_embedding is None else tokens + self.variable_embedding

    def select_targets(
        self, tokens: Float[Tensor, "batch channels tokens d_model"], target_index: Int[Tensor, " n_targets"]
    ) -> Float[Tensor, "batch target_channels tokens d_model"]:
        """Select the channels of the target columns."""
        return tokens[:, target_index] if self.reads_variables else tokens

    def to_sequences(
        self, tokens: Float[Tensor, "batch channels tokens d_model"]
    ) -> Float[Tensor, "sequences length d_model"]:
        """Arrange channels as attention reads them: joint ones one after another, others as separate sequences."""
        return tokens.flatten(1, 2) if self.joint else tokens.flatten(0, 1)

    def from_sequences(
        self, sequences: Float[Tensor, "sequences length d_model"], channels: int
    ) -> Float[Tensor, "batch {channels} tokens d_model"]:
        """Invert `to_sequences`."""
        if self.joint:
            return sequences.unflatten(1, (channels, -1))
        return sequences.unflatten(0, (-1, channels))

    def encode(
        self, encoder: Encoder, tokens: Float[Tensor, "batch channels tokens d_model"]
    ) -> Float[Tensor, "batch channels tokens d_model"]:
        """Encode the tokens, of which the number does not change."""
        if not self.axes:
            return self.from_sequences(encoder(self.to_sequences(tokens)), tokens.shape[1])
        for number, layer in enumerate(encoder.layers):
            across = tokens.transpose(1, 2) if is_over_variables(number) else tokens
            across = layer(across.flatten(0, 1)).view_as(across)
            tokens = across.transpose(1, 2) if is_over_variables(number) else across
        return encoder.norm(tokens)
