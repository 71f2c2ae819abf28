"""Positive feature maps φ of linear attention; E is the head size.

    elu     elu(x) + 1                                                     F = E
    relu    relu(x)                                                        F = E
    taylor  φ(q)·φ(k) = 1 + s + s²/2, s = q·k/√E: exp(s) to second order   F = 1 + E + E(E+1)/2
    favor   exp(w·x − |x|²/2)/√F, x scaled by E^-¼: exp(s) in expectation  F random directions w

Cost: n·F·E time and n·F memory.

Sources: Katharopoulos et al. 2020, "Transformers are RNNs" (elu); Choromanski et al. 2021, "Rethinking Attention with
Performers", lemma 1 and section 2.4 (favor); Arora et al. 2024, "Based", section 4.1 (taylor).
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

FEATURE_MAPS = ("elu", "relu", "taylor", "favor")


class EluPlusOne(torch.autograd.Function):
    """elu(x) + 1. Its slope is min(φ, 1), so that backward needs φ only."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        phi = F.elu(x).add_(1)
        ctx.save_for_backward(phi)
        return phi

    @staticmethod
    def backward(ctx, *grads: Tensor) -> Tensor:
        return ctx.saved_tensors[0].clamp(max=1).mul_(grads[0])


def taylor_features(x: Tensor) -> Tensor:
    """Compute [1, x, x_i² / √2, x_i x_j (i < j)] of x · E^-¼."""
    width = x.shape[-1]
    x = x * width**-0.25
    i, j = torch.triu_indices(width, width, device=x.device)
    scale = x.new_ones(i.shape).masked_fill(i == j, math.sqrt(0.5))
    return torch.cat([torch.ones_like(x[..., :1]), x, x[..., i] * x[..., j] * scale], dim=-1)


def favor_features(
    q: Tensor, k: Tensor, directions: Tensor, causal: bool, eps: float
) -> tuple[Tensor, Tensor]:
    """Compute (exp(w·x − |x|²/2) + eps) / √F of queries and keys.

    The largest exponent is subtracted where this cancels in the quotient: for each query always, for the keys only if
    all queries read all keys. The exponents of causal keys stay; they cannot exceed |w|²/2.
    """
    to_query, to_key = _exponent(q, directions), _exponent(k, directions)
    to_query = to_query - to_query.amax(-1, keepdim=True).detach()
    if not causal:
        to_key = to_key - to_key.amax((-2, -1), keepdim=True).detach()
    scale = directions.shape[0] ** -0.5
    return scale * (to_query.exp() + eps), scale * (to_key.exp() + eps)


def _exponent(x: Tensor, directions: Tensor) -> Tensor:
    x = x * x.shape[-1] ** -0.25
    return x @ directions.mT - x.square().sum(-1, keepdim=True) / 2


def orthogonal_directions(features: int, head_dim: int) -> Float[Tensor, "features head_dim"]:
    """Draw directions that are orthogonal within every block of `head_dim`, with the lengths of Gaussian vectors."""
    blocks = math.ceil(features / head_dim)
    directions = torch.linalg.qr(torch.randn(blocks, head_dim, head_dim)).Q.flatten(0, 1)[:features]
    return directions * torch.randn(features, head_dim).norm(dim=-1, keepdim=True)
