"""Linear models from a window to the horizon, by least squares in closed form, and the choice of their settings.

All computations use only the sums over windows of `forecast.linear.gram`. Subtracting the mean of each window is a
projection of the sums. The squared error of a linear model is a trace.
"""

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from forecast.data import DataModule, Windows
from forecast.linear.covariate_steps import CovariateRole
from forecast.linear.gram import Gram, window_gram
from forecast.models.linear_model import LinearWeights, without_covariates
from forecast.system.progress import bar

Weight = Float64[Tensor, "seq_len pred_len"]
Covariates = Float64[Tensor, "n_targets n_read pred_len"]

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
MAX_DEPTH = 3  # largest number of lookbacks that are averaged
INNER_ORIGINS = 3  # origins within the training rows at which choices are compared
COMPARED_STEPS = 48  # steps of the horizon, evenly spaced, at which choices are compared


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


class Choice(NamedTuple):
    """Settings of a linear model."""

    ridge: float
    n_lookbacks: int  # number of lookbacks that are averaged: the whole window, its last half, its last quarter
    roles: tuple[CovariateRole, ...] = ()


def fit_choice(gram: Gram, choice: Choice) -> LinearWeights:
    """Fit the linear model of a choice to the windows of a Gram matrix; float32 weights on the CPU."""
    past_weight, covariates = average(
        [solve_recent(gram, n, choice.ridge, choice.roles) for n in lookbacks(gram.seq_len, choice.n_lookbacks)]
    )
    steps, read = gram.steps, gram.steps.of(choice.roles, gram.seq_len)
    is_future = steps.is_future[read]
    return LinearWeights(
        past_weight.float().cpu(),
        covariates[:, read].float().cpu(),
        steps.past_index[read[~is_future]],
        steps.time_index[read[is_future] - len(steps.past_index)],
    )


def fit_least_squares(gram: Gram, ridge: float) -> LinearWeights:
    """Fit the linear model of the whole window, without covariates, to the windows of a Gram matrix."""
    weight, _ = solve_recent(gram, gram.seq_len, ridge, ())
    return without_covariates(weight.float().cpu())


def validate_least_squares(train: Gram, data: DataModule) -> float:
    """Fit linear models of the whole window to training windows; their lowest squared error of a validation window.

    They differ in the ridge, as those between which `choose_linear_model` chooses.
    """
    val = window_gram(data.windows["val"])
    errors = [squared_error(val, *solve_recent(train, data.seq_len, ridge, ())) for ridge in RIDGES[::2]]
    return min(errors) / float(val.count.amax())


def fit_and_test_grams(data: DataModule, gram: Gram) -> Iterator[tuple[Gram, Gram]]:
    """Yield pairs of Gram matrices: of windows to fit on, and of later windows to measure the error on.

    The first `INNER_ORIGINS` pairs lie within the training rows; the last pair is training and validation. A validation
    split often covers only one season, and several origins make it less likely that a choice is best by chance. Where
    sums are over a sample, the samples of all inner pairs together are as large as one of the training windows.
    """
    train = data.windows["train"]
    for sixths in range(INNER_ORIGINS, 0, -1):
        before, after = cut_at_origin(train, sixths)
        if len(before) and len(after):
            yield window_gram(before, 2 * INNER_ORIGINS), window_gram(after, 2 * INNER_ORIGINS)
    yield gram, window_gram(data.windows["val"])


def cut_at_origin(train: Windows, sixths: int) -> tuple[Windows, Windows]:
    """Select the windows that end before an origin, and those that forecast the sixth of the rows after it.

    In each series, the origin lies this many sixths of its training rows before their end.
    """
    width = train.seq_len + train.pred_len
    before, after = [], []
    for starts in train.starts:
        end = starts.stop + width - 1
        sixth = (end - starts.start) // 6
        origin = end - sixths * sixth  # first forecast row of the later windows
        before.append(range(starts.start, origin - width + 1))
        after.append(range(max(starts.start, origin - train.seq_len), origin + sixth - width + 1))
    return train.with_starts(before), train.with_starts(after)


def choose_linear_model(grams: Iterable[tuple[Gram, Gram]], *, ridges: Sequence[float] = RIDGES) -> Choice:
    """Choose the ridge, the number of lookbacks and the covariates by the errors on pairs of Gram matrices.

    All errors are divided by those of plain least squares: the smallest ridge, one lookback and no covariates. Among
    the choices without covariates, the one with the smallest maximum error over the pairs is selected, so it is never
    worse than plain least squares on any pair. At early origins the linear model is fitted to fewer rows, so a larger
    ridge helps more there than it would in the final fit. The selected choice is then compared with all choices with
    covariates, and the one with the smallest mean error over the pairs is returned. The mean is used there because
    plain least squares, with the many weights of covariates, is no safe default.
    """
    pairs = []
    with bar(INNER_ORIGINS + 1, "choosing the linear model", " origins") as shown:
        for fitted_on, tested_on in grams:
            pairs.append(_errors(fitted_on, tested_on, ridges))
            shown.update()
    plain = next(iter(pairs[0]))

    def relative(choice: Choice) -> list[float]:
        return [errors[choice] / max(errors[plain], torch.finfo(torch.float64).tiny) for errors in pairs]

    without = min((choice for choice in pairs[0] if not choice.roles), key=lambda choice: max(relative(choice)))
    others = [choice for choice in pairs[0] if choice.roles]
    return min([without, *others], key=lambda choice: fmean(relative(choice)))


def _errors(fitted_on: Gram, tested_on: Gram, ridges: Sequence[float]) -> dict[Choice, float]:
    """Compute the squared error of every choice at some steps of the horizon, the default choice first."""
    fitted_on, tested_on = fitted_on.fewer_steps(COMPARED_STEPS), tested_on.fewer_steps(COMPARED_STEPS)
    errors, roles = {}, fitted_on.steps.roles
    for read in [roles[:count] for count in range(len(roles) + 1)]:
        for ridge in ridges:
            fitted = [solve_recent(fitted_on, n, ridge, read) for n in lookbacks(fitted_on.seq_len, MAX_DEPTH)]
            for n_lookbacks in range(1, len(fitted) + 1):
                errors[Choice(ridge, n_lookbacks, read)] = squared_error(tested_on, *average(fitted[:n_lookbacks]))
    return errors


def lookbacks(seq_len: int, n_lookbacks: int) -> list[int]:
    """Return the lengths of the whole window, its last half, its last quarter …, down to two steps."""
    return [seq_len // 2**i for i in range(n_lookbacks) if i == 0 or seq_len // 2**i > 1]


def solve_recent(
    gram: Gram, lookback: int, ridge: float, roles: tuple[CovariateRole, ...]
) -> tuple[Float64[Tensor, "lookback pred_len"], Covariates]:
    """Fit the linear model that reads the last `lookback` steps of the past, and covariates of these roles.

    The mean of these steps is subtracted from all steps. Covariates that are not read have weights of zero.
    """
    first, read = gram.seq_len - lookback, gram.steps.of(roles, lookback)
    cross, covariates = gram.cross[:, read, first:], gram.covariates[:, read][..., read]
    weight, of_read = solve(gram.auto[first:, first:], cross, covariates, lookback, ridge)
    of_all = of_read.new_zeros(len(of_read), len(gram.steps.step), of_read.shape[2])
    of_all[:, read] = of_read
    return weight, of_all


def average(fitted: Sequence[tuple[Float64[Tensor, "_ pred_len"], Covariates]]) -> tuple[Weight, Covariates]:
    """Combine linear models of the whole window and of its shorter ends into one that forecasts their mean.

    A long window holds more information; a short one has fewer weights to estimate. The average of forecasts from
    several lookbacks errs less than most of them alone (Oreshkin et al. 2020, N-BEATS, section 3.4).
    """
    mean = torch.zeros_like(fitted[0][0])
    for weight, _ in fitted:  # adds the weights of the mean of its steps
        mean[-len(weight) :] += (weight + (1 - weight.sum(0)) / len(weight)) / len(fitted)
    return mean, torch.stack([covariates for _, covariates in fitted]).mean(0)
