"""Patches: tokens of several time steps, and a head that turns a token into values of its steps (Nie et al. 2023)."""

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


def pad_to_patches(
    steps: Float[Tensor, "batch channels length width"], patch_len: int
) -> Float[Tensor, "batch channels padded width"]:
    """Pad steps with zeros at the end to whole patches; return `steps` itself if nothing is missing."""
    missing = -steps.shape[2] % patch_len
    return F.pad(steps, (0, 0, 0, missing)) if missing else steps


def largest_divisor(number: int, limit: int) -> int:
    """Return the largest divisor of a number that is at most `limit`."""
    return max(divisor for divisor in range(1, min(number, limit) + 1) if number % divisor == 0)


def patch_centres(
    seq_len: int, pred_len: int, patch_len: int
) -> tuple[Int[np.ndarray, " past_tokens"], Int[np.ndarray, " future_tokens"]]:
    """Compute the steps that the tokens of the past and of the horizon stand for.

    A token's step is the middle of its patch, or the last step of the horizon. The patches of the past end at its last
    step, those of the horizon begin at its first.
    """
    half = patch_len // 2
    past = seq_len - patch_len * np.arange(seq_len // patch_len, 0, -1) + half
    future = seq_len + np.arange(0, pred_len, patch_len) + half
    return past, np.minimum(future, seq_len + pred_len - 1)


class PatchEmbedding(nn.Module):
    """Embed every `patch_len` steps, values and time embeddings, as one token.

    token = A [values of the patch] + b + C [time embeddings of the patch]; cost length · d_model for each variable.
    Steps that share a time embedding are embedded as if each of them had it.
    """

    def __init__(self, n_features: int, d_time: int, d_model: int, *, patch_len: int) -> None:
        super().__init__()
        self.patch_len = patch_len
        self.values = nn.Linear(patch_len * n_features, d_model)
        self.time = nn.Linear(patch_len * d_time, d_model, bias=False)

    def forward(
        self,
        values: Float[Tensor, "batch channels length n_features"],
        time: Float[Tensor, "batch 1 groups d_time"],
    ) -> Float[Tensor, "batch channels tokens d_model"]:
        """Embed a `length` that is a multiple of `patch_len`. The groups of steps of a token have equal lengths."""
        tokens = values.shape[2] // self.patch_len
        by_step = self.time.weight.unflatten(1, (self.patch_len, -1))
        # (d_model, groups of a token, d_time)
        weight = by_step.unflatten(1, (time.shape[2] // tokens, -1)).sum(2)
        return self.values(_join(values, tokens)) + F.linear(_join(time, tokens), weight.flatten(1))


def _join(
    steps: Float[Tensor, "batch channels length width"], tokens: int
) -> Float[Tensor, "batch channels tokens joined"]:
    """Concatenate the values of the steps of each token."""
    return steps.unflatten(2, (tokens, -1)).flatten(3)


class StepHead(nn.Module):
    """Turn a patch's token and the time embedding of each of its steps into the values of the steps.

    y(step) = W gelu(A(step's place in the patch) token + B time(step)) + c

    A patch may begin at any hour; the effect of an hour, a weekday or a holiday is shared by all places in a patch. W
    and c are zero at the start, so that an untrained head adds nothing.
    """

    def __init__(
        self, d_model: int, d_time: int, n_outputs: int, *, patch_len: int, hidden: int = 32
    ) -> None:
        super().__init__()
        self.patch_len = patch_len
        self.token = nn.Linear(d_model, patch_len * hidden)
        self.time = nn.Linear(d_time, hidden, bias=False)
        self.out = nn.Linear(hidden, n_outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self,
        tokens: Float[Tensor, "batch channels tokens d_model"],
        time: Float[Tensor, "batch 1 length d_time"],
    ) -> Float[Tensor, "batch channels length n_outputs"]:
        steps = self.token(tokens).unflatten(3, (self.patch_len, -1)).flatten(2, 3)
        return self.out(F.gelu(steps + self.time(time)))
