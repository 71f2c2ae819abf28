"""Linear models from a window to the horizon, by least squares in closed form.

All computations use only the sums over windows of `forecast.linear.gram`. Subtracting the mean of each window is a
projection of the sums. The squared error of a linear model is a trace.
"""

import torch
from jaxtyping import Float64
from torch import Tensor

from forecast.linear.gram import Gram

Weight = Float64[Tensor, "seq_len pred_len"]
Covariates = Float64[Tensor, "n_targets n_read pred_len"]


def solve(
    auto: Float64[Tensor, "width width"],
    cross: Float64[Tensor, "n_targets n_read width"],
    covariates: Float64[Tensor, "n_sums n_read n_read"],
    seq_len: int,
    ridge: float,
) -> tuple[Weight, Covariates]:
    """Fit the linear model from the past minus its mean, and covariates, to the horizon minus the same mean.

    The weights of the past are the same for every target, those of the covariates are not. Ridge regression: `ridge`
    times the mean of the diagonal is added to the diagonals of `auto` and `covariates`, so that constant data has a
    solution. The weights of the covariates are eliminated from the normal equations, so that many targets need no
    large system.

    Args:
        auto, cross, covariates: see `Gram`.
        seq_len: steps of the past in `auto` and `cross`.
        ridge: penalty.
    """
    past, future = auto[:seq_len, :seq_len], auto[:seq_len, seq_len:]
    future = future - past.mean(1, keepdim=True)
    future = future - future.mean(0)
    past = past - past.mean(0) - past.mean(1, keepdim=True) + past.mean()
    penalize(past, ridge)
    if not covariates.shape[-1]:
        return torch.linalg.solve(past, future), cross[..., seq_len:]
    cross = cross - cross[..., :seq_len].mean(2, keepdim=True)
    factor = torch.linalg.cholesky(penalize(covariates.clone(), ridge))
    # with covariates LLᵀ, half = L⁻¹ cross: what the covariates explain alone is halfᵀ half, summed over targets
    half = torch.linalg.solve_triangular(factor, cross, upper=False)
    explained = torch.einsum("trl,trw->lw", half[..., :seq_len], half)
    weight = torch.linalg.solve(past - explained[:, :seq_len], future - explained[:, seq_len:])
    remaining = half[..., seq_len:] - half[..., :seq_len] @ weight
    return weight, torch.linalg.solve_triangular(factor.mT, remaining, upper=True)


def penalize(gram: Float64[Tensor, "*batch n n"], ridge: float) -> Float64[Tensor, "*batch n n"]:
    """Add `ridge` times the mean of the diagonal to the diagonal, in place."""
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(ridge * diagonal.mean(-1, keepdim=True) + torch.finfo(gram.dtype).tiny)
    return gram


def squared_error(gram: Gram, weight: Weight, covariates: Covariates) -> float:
    """Σ‖y − Wᵀx − Cᵀz‖² over windows and targets. The columns of W must sum to 1, so that constants are kept."""
    auto, cross, seq_len = gram.auto, gram.cross, gram.seq_len
    past, future, last = auto[:seq_len, :seq_len], auto[:seq_len, seq_len:], auto[seq_len:, seq_len:]
    error = float((weight * (past @ weight - 2 * future)).sum() + last.trace())
    if not cross.shape[1]:
        return error
    remaining = cross[..., seq_len:] - cross[..., :seq_len] @ weight  # products with the error of Wᵀx
    return error + float((covariates * (gram.covariates @ covariates - 2 * remaining)).sum())
