"""Ranks of forecasters over data sets, and intervals of aggregate scores over seeds."""

import math

import numpy as np
from jaxtyping import Float

BOOTSTRAP_DRAWS = 2000


def rank_errors(
    errors: Float[np.ndarray, "sets n_forecasters"], tolerance: float
) -> Float[np.ndarray, "sets n_forecasters"]:
    """Return the rank of each error in its row, 1 for the lowest; equal errors share the mean of their ranks.

    Args:
        errors: of each forecaster on each data set.
        tolerance: relative difference up to which errors count as equal.
    """
    one, other = errors[:, :, None], errors[:, None, :]
    equal = np.isclose(one, other, rtol=tolerance, atol=0)
    lower = (other < one) & ~equal
    return lower.sum(2) + (equal.sum(2) + 1) / 2


def critical_difference(n_forecasters: int, sets: int, alpha: float = 0.05) -> float:
    """Return the difference of two average ranks that is significant in the test of Nemenyi.

    It is q √(k (k + 1) / 6N) for k forecasters on N data sets, where q is the quantile of the Studentized range with
    infinite degrees of freedom, divided by √2 (Demšar 2006, Statistical Comparisons of Classifiers over Multiple Data
    Sets, section 3.2.2).
    """
    low, high = 0.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if studentized_range(middle, n_forecasters) < 1 - alpha else (low, middle)
    return low / math.sqrt(2) * math.sqrt(n_forecasters * (n_forecasters + 1) / (6 * sets))


def studentized_range(q: float, n_forecasters: int) -> float:
    """Return the probability that the range of k independent standard normal variables is at most q.

    It is k ∫ φ(z) (Φ(z) − Φ(z − q))^(k−1) dz. `scipy.stats` has the same function; its import takes a second.
    """
    from scipy.special import ndtr  # imported where ranks are compared

    z, step = np.linspace(-9, 9, 4001, retstep=True)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return float(n_forecasters * np.sum(density * (ndtr(z) - ndtr(z - q)) ** (n_forecasters - 1)) * step)


def bootstrap_skill(
    errors: list[Float[np.ndarray, " _"]],
    baselines: Float[np.ndarray, " sets"],
    level: float = 0.95,
    *,
    same_seeds: bool = False,
) -> tuple[float, float, float]:
    """Return the skill over data sets and its interval over seeds: 1 − geometric mean of error / baseline's error.

    The interval is that of the stratified bootstrap: the seeds of each data set are drawn with replacement, separately
    (Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice). It holds for these data
    sets. It is NaN where no data set has two seeds. The variance of draws from n seeds is (n − 1)/n of that of new
    seeds, so the deviations of the logarithms of the drawn means are multiplied by √(n/(n − 1)).

    Args:
        errors: of each seed (n_seeds,), by data set, whose numbers of seeds may differ.
        baselines: error of the baseline on each data set.
        level: probability of the interval.
        same_seeds: whether errors[i][s] are of one seed s in all data sets; then all draw the same seeds.
    """
    means = np.array([one.mean() for one in errors])
    found = float(aggregate_skill(means[None], baselines)[0])
    if max(map(len, errors)) < 2:
        return found, math.nan, math.nan
    random = np.random.default_rng(0)
    if same_seeds:
        chosen = random.integers(len(errors[0]), size=(BOOTSTRAP_DRAWS, len(errors[0])))
        draws = np.stack([one[chosen].mean(1) for one in errors], axis=1)
    else:
        draws = np.stack([random.choice(one, (BOOTSTRAP_DRAWS, len(one))).mean(1) for one in errors], axis=1)
    seeds = np.array([len(one) for one in errors])
    draws = means * (draws / means) ** np.sqrt(seeds / np.maximum(seeds - 1, 1))
    low, high = np.quantile(aggregate_skill(draws, baselines), [(1 - level) / 2, (1 + level) / 2])
    return found, float(low), float(high)


def aggregate_skill(
    errors: Float[np.ndarray, "draws sets"], baselines: Float[np.ndarray, " sets"]
) -> Float[np.ndarray, " draws"]:
    """Return 1 − geometric mean over the data sets of error / baseline's error."""
    return 1 - np.exp(np.log(errors / baselines).mean(1))
