"""The linear map that a model starts from: how strongly it is held back, and over which lookbacks, the data choose."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import ForecastData, Windows
from forecast.linear_map import solve, squared_error, window_gram
from forecast.spread import spread

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
DEPTH = 3
ORIGINS = 3
COMPARED = 48
"""Steps of the horizon, evenly spread, that choices are compared on."""

Gram = Float64[Tensor, "width width"]
Map = Float64[Tensor, "seq_len pred_len"]


@dataclass(frozen=True)
class Choice:
    """The ridge, and how many lookbacks are averaged: the whole window, its last half, its last quarter."""

    ridge: float
    depth: int


def fit_map(data: ForecastData, chosen_on: ForecastData) -> Float[Tensor, "seq_len pred_len"]:
    """The map of `data`'s training windows; ridge and depth are those that do best on `chosen_on`."""
    choice = choose(trials(chosen_on), data.seq_len)
    return fitted(window_gram(data.windows["train"]), data.seq_len, choice).float().cpu()


def fitted(gram: Gram, seq_len: int, choice: Choice) -> Map:
    """The map that a choice makes of the windows of a Gram matrix."""
    return averaged([solve_recent(gram, seq_len, n, choice.ridge) for n in lookbacks(seq_len, choice.depth)])


def trials(data: ForecastData) -> Iterator[tuple[Gram, Gram]]:
    """Windows to fit on and later ones to measure on: three within the training rows, then validation's.

    One validation split is one season of one year; what pays at each of four origins pays by less of an accident.
    Many series and stores have the last alone.
    """
    train = data.windows["train"]
    if type(train) is Windows:
        (starts,) = train.starts
        width = data.seq_len + data.pred_len
        end = starts.stop + width - 1
        sixth = (end - starts.start) // 6
        for back in range(ORIGINS, 0, -1):
            origin = end - back * sixth  # the row that is first forecast
            before = range(starts.start, origin - width + 1)
            after = range(origin - data.seq_len, origin + sixth - width + 1)
            if before and after:
                yield window_gram(data.windows_from([before])), window_gram(data.windows_from([after]))
    yield window_gram(train), window_gram(data.windows["val"])


def choose(grams: Iterable[tuple[Gram, Gram]], seq_len: int) -> Choice:
    """The choice that gains most over the plainest one, where it gains least: at the trial that speaks against it.

    Fitted on less, the maps of early origins err more by chance than the map of all rows will, and holding them back
    pays more there. What does not pay at every origin is left alone.
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
        maps = [solve_recent(before, seq_len, n, ridge) for n in lookbacks(seq_len, DEPTH)]
        for depth in range(1, len(maps) + 1):
            errors[Choice(ridge, depth)] = squared_error(after, averaged(maps[:depth]))
    return errors


def _fewer_steps(gram: Gram, seq_len: int) -> Gram:
    steps = seq_len + torch.from_numpy(spread(len(gram) - seq_len, COMPARED))
    kept = torch.cat([torch.arange(seq_len), steps]).to(gram.device)
    return gram[kept][:, kept]


def lookbacks(seq_len: int, depth: int) -> list[int]:
    """The whole window, its last half, its last quarter …, as far as there are two steps left."""
    return [seq_len // 2**i for i in range(depth) if i == 0 or seq_len // 2**i > 1]


def solve_recent(
    gram: Gram, seq_len: int, lookback: int, ridge: float
) -> Float64[Tensor, "lookback pred_len"]:
    """The map of the window's last `lookback` steps, less their mean, to the horizon less that mean."""
    return solve(gram[seq_len - lookback :, seq_len - lookback :], lookback, ridge)


def averaged(maps: Sequence[Float64[Tensor, "_ pred_len"]]) -> Map:
    """The mean of maps of the whole window and of ever shorter ends of it, as one map that keeps constants.

    A long window says more and a short one is learnt more surely; forecasts of several lookbacks, averaged, err less
    than most of them alone (Oreshkin et al. 2020, N-BEATS, section 3.4).
    """
    mean = torch.zeros_like(maps[0])
    for weight in maps:  # its window's mean is taken off, and given back
        mean[-len(weight) :] += (weight + (1 - weight.sum(0)) / len(weight)) / len(maps)
    return mean
