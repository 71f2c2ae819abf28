"""Which variables a token holds, and which tokens attention reads together."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from forecast.attention.base import check_choice

TOKENS = ("mixed", "independent", "joint")
SIZE = 0.3
"""Of a variable's embedding, beside tokens of unit size."""


class Variables(nn.Module):
    """The layout of several variables in the sequences that attention reads.

    mixed        one sequence; a token holds a patch of all variables            T tokens
    independent  a sequence for each variable, as if it were alone               n sequences of T tokens
    joint        one sequence; a token for each variable and patch, which an     n·T tokens
                 embedding tells apart

    A series is what has tokens of its own: all variables together (mixed), or each.

    Sources: Zhou et al. 2021 (mixed); Nie et al. 2023, PatchTST (independent); Woo et al. 2024, Moirai (joint).

    Raises:
        ValueError: `tokens` is none of these.
    """

    def __init__(self, tokens: str, n_features: int, d_model: int) -> None:
        super().__init__()
        check_choice("tokens", tokens, TOKENS)
        self.mixed, self.independent, self.joint = (tokens == name for name in TOKENS)
        self.width = n_features if self.mixed else 1
        """Variables in a token."""
        self.names = nn.Parameter(SIZE * torch.randn(n_features, 1, d_model)) if self.joint else None

    def series(
        self, steps: Float[Tensor, "batch length n_features"], columns: Int[Tensor, " n_columns"]
    ) -> Float[Tensor, "batch series length width"]:
        """Those of all variables, or, independent, of the columns that are forecast: no other has a say."""
        if self.independent:
            steps = steps[..., columns]
        return steps.unflatten(2, (-1, self.width)).movedim(2, 1)

    def named(
        self, tokens: Float[Tensor, "batch series tokens d_model"]
    ) -> Float[Tensor, "batch series tokens d_model"]:
        return tokens if self.names is None else tokens + self.names

    def forecast(
        self, tokens: Float[Tensor, "batch series tokens d_model"], columns: Int[Tensor, " n_columns"]
    ) -> Float[Tensor, "batch asked tokens d_model"]:
        """Of the tokens of all series those of the columns that are forecast."""
        return tokens[:, columns] if self.joint else tokens

    def together(
        self, tokens: Float[Tensor, "batch series tokens d_model"]
    ) -> Float[Tensor, "sequences length d_model"]:
        """As attention reads them."""
        return tokens.flatten(1, 2) if self.joint else tokens.flatten(0, 1)

    def apart(
        self, sequences: Float[Tensor, "sequences length d_model"], series: int
    ) -> Float[Tensor, "batch {series} tokens d_model"]:
        """The reverse."""
        return sequences.unflatten(1, (series, -1)) if self.joint else sequences.unflatten(0, (-1, series))
