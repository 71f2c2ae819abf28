"""The linear model that a model starts from; its ridge and lookbacks are chosen on later windows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import DataModule
from forecast.data.even_spacing import spread
from forecast.evaluation.least_squares import is_sampled, solve, squared_error, window_gram

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
DEPTH = 3
ORIGINS = 3
COMPARED = 48
"""Steps of the horizon, evenly spaced, that choices are compared on."""

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
    """The linear model of the training windows of `data`, with the ridge and depth that do best on `chosen_on`.

    `gram` is the Gram matrix of the training windows of `chosen_on`; None if it is not known.
    """
    gram = window_gram(chosen_on.windows["train"]) if gram is None else gram
    choice = choose(trials(chosen_on, gram), data.seq_len)
    own = gram if data is chosen_on else window_gram(data.windows["train"])
    return fit_choice(own, data.seq_len, choice).float().cpu()


def fit_choice(gram: Gram, seq_len: int, choice: Choice) -> Weight:
    """The linear model of the windows of a Gram matrix."""
    return averaged([solve_recent(gram, seq_len, n, choice.ridge) for n in lookbacks(seq_len, choice.depth)])


def trials(data: DataModule, gram: Gram) -> Iterator[tuple[Gram, Gram]]:
    """Pairs of windows to fit on and later windows to measure on, as Gram matrices.

    Three pairs lie within the training rows; the last one is training and validation. One validation split is one
    season of one year; what pays at four origins pays by less of an accident. Several series and series on disk have
    the last pair alone. `gram` is the Gram matrix of the training windows.
    """
    train = data.windows["train"]
    if not is_sampled(train):
        (starts,) = train.starts
        width = data.seq_len + data.pred_len
        end = starts.stop + width - 1
        sixth = (end - starts.start) // 6
        for back in range(ORIGINS, 0, -1):
            origin = end - back * sixth  # the first row that is forecast
            before = range(starts.start, origin - width + 1)
            after = range(origin - data.seq_len, origin + sixth - width + 1)
            if before and after:
                yield window_gram(train.over([before])), window_gram(train.over([after]))
    yield gram, window_gram(data.windows["val"])


def choose(grams: Iterable[tuple[Gram, Gram]], seq_len: int) -> Choice:
    """The choice with the largest gain over the plainest choice, at the trial where its gain is smallest.

    Linear models of early origins are fitted to fewer rows than the final one; they err more by chance, so a ridge
    pays more there. A choice that does not pay at every origin is not taken.
    """
    worst: dict[Choice, float] = {}
    for before, after in grams:
        errors = _errors(_fewer_steps(before, seq_len), _fewer_steps(after, seq_len), seq_len)
        plainest = max(next(iter(errors.values())), torch.finfo(torch.float64).tiny)
        for choice, error in errors.items():
            worst[choice] = max(worst.get(choice, 0.0), error / plainest)
    return min(worst, key=worst.__getitem__)


def _errors(before: Gram, after: Gram, seq_len: int) -> dict[Choice, float]:
    errors = {}
    for ridge in RIDGES:
        weights = [solve_recent(before, seq_len, n, ridge) for n in lookbacks(seq_len, DEPTH)]
        for depth in range(1, len(weights) + 1):
            errors[Choice(ridge, depth)] = squared_error(after, averaged(weights[:depth]))
    return errors


def _fewer_steps(gram: Gram, seq_len: int) -> Gram:
    steps = seq_len + torch.from_numpy(spread(len(gram) - seq_len, COMPARED))
    kept = torch.cat([torch.arange(seq_len), steps]).to(gram.device)
    return gram[kept][:, kept]


def lookbacks(seq_len: int, depth: int) -> list[int]:
    """Lengths of the whole window, its last half, its last quarter …, down to two steps."""
    return [seq_len // 2**i for i in range(depth) if i == 0 or seq_len // 2**i > 1]


def solve_recent(
    gram: Gram, seq_len: int, lookback: int, ridge: float
) -> Float64[Tensor, "lookback pred_len"]:
    """The linear model from the last `lookback` steps, less their mean, to the horizon less that mean."""
    return solve(gram[seq_len - lookback :, seq_len - lookback :], lookback, ridge)


def averaged(weights: Sequence[Float64[Tensor, "_ pred_len"]]) -> Weight:
    """The mean of linear models of the whole window and of shorter ends of it, as one model that keeps constants.

    A long window holds more information; a short one has fewer weights to estimate. The average of forecasts from
    several lookbacks errs less than most of them alone (Oreshkin et al. 2020, N-BEATS, section 3.4).
    """
    mean = torch.zeros_like(weights[0])
    for weight in weights:  # the mean of its window is subtracted, and added again
        mean[-len(weight) :] += (weight + (1 - weight.sum(0)) / len(weight)) / len(weights)
    return mean
