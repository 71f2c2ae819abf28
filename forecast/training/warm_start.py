"""Fit of the linear model that a model starts from. Its ridge and its lookbacks are chosen on later windows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import DataModule
from forecast.data.even_spacing import spread
from forecast.evaluation.least_squares import is_sampled, solve, squared_error, window_gram

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
MAX_DEPTH = 3
"""Largest number of lookbacks that are averaged."""

INNER_ORIGINS = 3
"""Origins within the training rows at which choices are compared."""

COMPARED_STEPS = 48
"""Steps of the horizon, evenly spaced, at which choices are compared."""

Gram = Float64[Tensor, "width width"]
Weight = Float64[Tensor, "seq_len pred_len"]


@dataclass(frozen=True)
class Choice:
    """The ridge, and the number of lookbacks that are averaged: the whole window, its last half, its last quarter."""

    ridge: float
    depth: int


def fit_linear(
    data: DataModule, chosen_on: DataModule, gram: Gram | None
) -> Float[Tensor, "seq_len pred_len"]:
    """Fit a linear model to the training windows of `data`, with the ridge and depth chosen on `chosen_on`.

    `gram` is the Gram matrix of the training windows of `chosen_on`; None if it is not known.
    """
    gram = window_gram(chosen_on.windows["train"]) if gram is None else gram
    choice = choose(fit_and_test_grams(chosen_on, gram), data.seq_len)
    own = gram if data is chosen_on else window_gram(data.windows["train"])
    return fit_choice(own, data.seq_len, choice).float().cpu()


def fit_choice(gram: Gram, seq_len: int, choice: Choice) -> Weight:
    """Fit the linear model of a choice to the windows of a Gram matrix."""
    return average_lookbacks(
        [solve_recent(gram, seq_len, n, choice.ridge) for n in lookbacks(seq_len, choice.depth)]
    )


def fit_and_test_grams(data: DataModule, gram: Gram) -> Iterator[tuple[Gram, Gram]]:
    """Yield pairs of Gram matrices: of windows to fit on, and of later windows to measure the error on.

    The first `INNER_ORIGINS` pairs lie within the training rows; the last pair is training and validation. A validation
    split often covers only one season, and several origins make it less likely that a choice is best by chance. Several
    series, and series on disk, have the last pair only. `gram` is the Gram matrix of the training windows.
    """
    train = data.windows["train"]
    if not is_sampled(train):
        (starts,) = train.starts
        width = data.seq_len + data.pred_len
        end = starts.stop + width - 1
        sixth = (end - starts.start) // 6
        for back in range(INNER_ORIGINS, 0, -1):
            origin = end - back * sixth  # first forecast row of the later windows
            before = range(starts.start, origin - width + 1)
            after = range(origin - data.seq_len, origin + sixth - width + 1)
            if before and after:
                yield window_gram(train.over([before])), window_gram(train.over([after]))
    yield gram, window_gram(data.windows["val"])


def choose(grams: Iterable[tuple[Gram, Gram]], seq_len: int) -> Choice:
    """Return the choice whose largest error over all pairs is smallest, relative to the default choice.

    The default is the smallest ridge and one lookback. A choice that is worse than the default on any pair is never
    returned. At early origins the linear model is fitted to fewer rows, so a larger ridge helps more there than it
    would in the final fit.
    """
    worst: dict[Choice, float] = {}
    for fitted_on, tested_on in grams:
        errors = _errors(_fewer_steps(fitted_on, seq_len), _fewer_steps(tested_on, seq_len), seq_len)
        default = max(next(iter(errors.values())), torch.finfo(torch.float64).tiny)
        for choice, error in errors.items():
            worst[choice] = max(worst.get(choice, 0.0), error / default)
    return min(worst, key=worst.__getitem__)


def _errors(fitted_on: Gram, tested_on: Gram, seq_len: int) -> dict[Choice, float]:
    """Compute the squared error of every choice, the default choice first."""
    errors = {}
    for ridge in RIDGES:
        weights = [solve_recent(fitted_on, seq_len, n, ridge) for n in lookbacks(seq_len, MAX_DEPTH)]
        for depth in range(1, len(weights) + 1):
            errors[Choice(ridge, depth)] = squared_error(tested_on, average_lookbacks(weights[:depth]))
    return errors


def _fewer_steps(gram: Gram, seq_len: int) -> Gram:
    """Select the history and `COMPARED_STEPS` steps of the horizon from a Gram matrix."""
    steps = seq_len + torch.from_numpy(spread(len(gram) - seq_len, COMPARED_STEPS))
    kept = torch.cat([torch.arange(seq_len), steps]).to(gram.device)
    return gram[kept][:, kept]


def lookbacks(seq_len: int, depth: int) -> list[int]:
    """Return the lengths of the whole window, its last half, its last quarter …, down to two steps."""
    return [seq_len // 2**i for i in range(depth) if i == 0 or seq_len // 2**i > 1]


def solve_recent(
    gram: Gram, seq_len: int, lookback: int, ridge: float
) -> Float64[Tensor, "lookback pred_len"]:
    """Fit the linear model that forecasts from the last `lookback` steps; their mean is subtracted from all steps."""
    return solve(gram[seq_len - lookback :, seq_len - lookback :], lookback, ridge)


def average_lookbacks(weights: Sequence[Float64[Tensor, "_ pred_len"]]) -> Weight:
    """Combine linear models of the whole window and of its shorter ends into one that forecasts their mean.

    A long window holds more information; a short one has fewer weights to estimate. The average of forecasts from
    several lookbacks errs less than most of them alone (Oreshkin et al. 2020, N-BEATS, section 3.4).
    """
    mean = torch.zeros_like(weights[0])
    for weight in weights:  # includes subtracting and adding the mean of its steps
        mean[-len(weight) :] += (weight + (1 - weight.sum(0)) / len(weight)) / len(weights)
    return mean
