"""Tests of equal forecast accuracy over test windows, seeds and data sets."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

SIGNIFICANCE_LEVEL = 0.05  # tests with a smaller p-value are significant
ROUND_OFF = 1e-6  # relative difference of losses that comes from float32 arithmetic


@dataclass(frozen=True)
class LossDifference:
    """Loss of one forecaster minus the loss of another, and the test that its mean is zero."""

    mean: float  # over the test windows
    variance: float  # of the mean; NaN where there are too few windows
    degrees_of_freedom: int | float  # of the variance; 0 where there are too few windows
    comparisons: int | float = 1  # factor of the p-value that corrects it for tests made together
    base: float = 1.0  # mean loss of the other forecaster
    base_variance: float = 0.0
    base_covariance: float = 0.0  # of `base` with `mean`
    independent: float = math.nan  # windows that share no step; NaN where windows are not what is lacking

    @property
    def statistic(self) -> float:
        """The mean in standard errors; NaN where there are too few windows."""
        if self.variance == 0:
            return math.copysign(math.inf, self.mean) if self.mean else 0.0
        return self.mean / math.sqrt(self.variance)

    @property
    def p_value(self) -> float:
        """Two-sided p-value of Student's t; NaN where there are too few windows."""
        from scipy.special import stdtr  # imported where a test is asked for

        return float(2 * stdtr(self.degrees_of_freedom, -abs(self.statistic)))

    @property
    def adjusted_p_value(self) -> float:
        return min(1.0, self.comparisons * self.p_value) if self.degrees_of_freedom else math.nan

    def interval(self) -> tuple[float, float]:
        """95% confidence interval of the mean, which excludes 0 where `adjusted_p_value` is below 5%.

        With equal `comparisons`, all intervals made together hold their means with a probability of 95%.
        """
        half = self._quantile * math.sqrt(self.variance)
        return self.mean - half, self.mean + half

    def relative_interval(self) -> tuple[float, float]:
        """95% confidence interval of mean / base, the relative difference ρ of the losses (Fieller 1954).

        It holds each ρ for which the test does not reject that the mean of first − (1 + ρ) · other is zero. At ρ = 0
        this is the test of `p_value`, so the interval excludes 0 where `adjusted_p_value` is below 5%. It has
        the size of the test, because it counts the variance of `base`: in simulations, 94% to 96% of the intervals hold
        ρ, and of `interval` / `base`, 88% to 100% (tests/unit/evaluation/test_significance.py).

        NaN where there are too few independent windows: where it is unbounded, or holds −1. A loss is not negative, so
        ρ > −1; an interval that reaches −1 only says that the variances are too large for the test.
        """
        quantile = self._quantile
        square = self.base**2 - quantile**2 * self.base_variance
        if not square > 0:
            return math.nan, math.nan
        middle = self.mean * self.base - quantile**2 * self.base_covariance
        last = self.mean**2 - quantile**2 * self.variance
        half = math.sqrt(max(0.0, middle**2 - square * last))
        low, high = (middle - half) / square, (middle + half) / square
        return (low, high) if low > -1 else (math.nan, math.nan)

    @property
    def _quantile(self) -> float:
        """The quantile of Student's t for two-sided 95% intervals; NaN where there are too few windows."""
        if not self.degrees_of_freedom:
            return math.nan
        from scipy.special import stdtrit

        return float(stdtrit(self.degrees_of_freedom, 1 - (1 - 0.95) / (2 * self.comparisons)))


def add_variances(parts: Sequence[LossDifference]) -> tuple[float, float]:
    """The sum of independent variances, and its degrees of freedom (Welch and Satterthwaite), (Σ v)² / Σ (v² / ν)."""
    variances, degrees = np.array([(one.variance, one.degrees_of_freedom) for one in parts]).T
    total = float(variances.sum())
    if not total:
        return total, float(degrees.sum())
    return total, total**2 / float((variances**2 / degrees).sum())


@dataclass(frozen=True)
class SeedVariance:
    """Variance over seeds of the mean loss of a run, by the two-way model variant + effect of the seed + rest.

    Runs of two variants with the same seed share its effect, such as the order of the windows, so that their difference
    has the variance of the rest alone.
    """

    variance: float  # of a run
    degrees_of_freedom: int | float  # 0 if no variant has two seeds
    rest: float  # variance of the rest
    rest_degrees: int | float  # 0 if fewer than two are left, and then runs count as independent

    @classmethod
    def estimate(cls, losses: Iterable[Mapping[int, float]]) -> "SeedVariance":
        """Fit the model to the mean losses of the runs of each variant by seed.

        Variants whose runs all have the same loss do not depend on the seed, and do not count.
        """
        variants = [one for one in losses if len(one) > 1 and not is_deterministic(one.values())]
        if not variants:
            return cls(math.nan, 0, math.nan, 0)
        seeds = sorted({seed for one in variants for seed in one})
        runs = [np.array(list(one.values())) for one in variants]
        effects = [np.equal.outer(list(one), seeds).astype(float) for one in variants]
        centred = np.concatenate([each - each.mean() for each in runs])
        design = np.concatenate([each - each.mean(0) for each in effects])
        solution, _, rank, _ = np.linalg.lstsq(design, centred, rcond=1e-9)
        degrees = len(centred) - len(variants)
        rest = float(((centred - design @ solution) ** 2).sum()), degrees - int(rank)
        effect = float((centred**2).sum()) - rest[0], int(rank)
        parts = [LossDifference(0.0, squares / degrees, own) for squares, own in (effect, rest) if own]
        of_run = add_variances(parts)
        return cls(*of_run, *((rest[0] / rest[1], rest[1]) if rest[1] > 1 else (math.nan, 0)))


def is_deterministic(losses: Collection[float]) -> bool:
    """Whether several runs all have the same mean loss, up to the round-off of float32 arithmetic."""
    return len(losses) > 1 and bool(max(losses) - min(losses) <= ROUND_OFF * max(map(abs, losses)))


def diebold_mariano(first: np.ndarray, second: np.ndarray, overlap: int, comparisons: int = 1) -> LossDifference:
    """Test whether two series of losses on the same windows have the same mean.

    With d(t) = first(t) − second(t) over windows t = 1 … n,

        Λ(j) = √(2/n) Σ d(t) cos(π j (t − ½) / n),  j = 1 … ν
        statistic = √n · mean(d) / √(mean of Λ(j)²),  Student's t with ν degrees of freedom under the null hypothesis
        ν = min(⌊0.4 n^⅔⌋, ⌊n / (4·overlap)⌋), at least 1; no test with fewer than 2·overlap windows, or fewer than 5

    Neighbouring windows share all but one of their `overlap` steps, so their losses are correlated and n windows
    carry less information than n independent ones. The variance of the mean is the spectral density of d(t) at
    frequency zero. It is estimated from the first ν cosines, whose periods are longer than the overlap. The estimate
    is never negative. A Bartlett kernel with a lag of one horizon underestimates the variance of such a series by a
    third and rejects twice too often.

    Sources: Diebold and Mariano (1995), Comparing Predictive Accuracy, for the test. Lazarus, Lewis, Stock and Watson
    (2018), HAR Inference: Recommendations for Practice, for the variance and 0.4 n^⅔. Coroneo and Iacone (2020),
    Comparing Predictive Accuracy in Small Samples Using Fixed-Smoothing Asymptotics, for its use with forecasts. The
    bound n / (4·overlap) is specific to this project.

    Args:
        first, second: losses in chronological order (n,).
        overlap: number of neighbouring windows that share steps; with stride 1, the horizon.
        comparisons: see `LossDifference`; the number of tests made together is Bonferroni's correction.
    """
    from scipy.fft import dct  # imported where a test is asked for

    second = np.asarray(second, dtype=np.float64)
    difference = np.asarray(first, dtype=np.float64) - second
    n, mean, base = len(difference), float(difference.mean()), float(second.mean())
    degrees = count_cosines(n, overlap)
    if not degrees:
        return LossDifference(mean, math.nan, 0.0, comparisons, base, independent=n / overlap)
    cosines, of_base = (np.asarray(dct(each, norm="ortho"))[1 : degrees + 1] for each in (difference, second))
    variance, *others = (float(np.mean(x)) / n for x in (cosines**2, of_base**2, cosines * of_base))
    return LossDifference(mean, variance, float(degrees), comparisons, base, *others, independent=n / overlap)


def count_cosines(n: int, overlap: int) -> int:
    """ν of `diebold_mariano` for n windows: the cosines that the variance is estimated from; 0: too few windows."""
    if n < 2 * overlap or n < 5:
        return 0
    return max(1, min(int(0.4 * n ** (2 / 3)), n // (4 * overlap)))


def choose_observations(dates: np.ndarray, series: np.ndarray, overlap: int) -> tuple[np.ndarray, int]:
    """What counts as one observation in a test that selects a model, and how many neighbours share steps.

    The windows that start on a date do, because their series share its shocks (see `sum_losses`). Where there are too
    few dates for a test, the windows of a series do, as if series were independent: with common shocks, p-values are
    too small for a verdict, but a choice between two models has nothing better.

    Args:
        dates, series: forecast start, and number of the series, of each window (n_windows,).
        overlap: number of consecutive dates whose windows share steps.
    """
    return (dates, overlap) if count_cosines(len(np.unique(dates)), overlap) else (series, 1)


def add_seed_variance(
    difference: LossDifference, seeds: SeedVariance, one: Mapping[int, float], other: Mapping[int, float]
) -> LossDifference:
    """Add the variance over seeds to the variance over windows of a loss difference.

    The variance over seeds is the variance of the difference if the models are trained again with other seeds. With n
    and m runs, of which c have equal seeds, it is (1/n + 1/m − 2c/nm) · variance of a run + 2c/nm · variance of the
    rest: the pooled one, or that of these two forecasters if it is larger, because others may be closer to each other.
    The degrees of freedom of the sum are those of Welch and Satterthwaite, see `add_variances`.

    Args:
        difference: of losses that are averaged over the seeds of each forecaster.
        one, other: the loss of each run of the two forecasters by seed; empty for one that is not trained.

    Returns:
        The difference; without a test (and with NaN as `independent`) if two trained forecasters differ, but no variant
        has two seeds, so that the variance of a run is not known.
    """
    are_trained = bool(one) and bool(other)
    one, other = ({} if is_deterministic(runs.values()) else runs for runs in (one, other))
    if not seeds.degrees_of_freedom and are_trained and (one or other):
        return LossDifference(difference.mean, math.nan, 0.0)
    if not difference.degrees_of_freedom or not seeds.degrees_of_freedom:
        return difference
    first, base = (1 / len(runs) if runs else 0.0 for runs in (one, other))
    gaps = [one[seed] - other[seed] for seed in one.keys() & other.keys()]
    paired = 2 * len(gaps) / (len(one) * len(other) or 1)
    of_pair = float(np.var(gaps, ddof=1)) / 2 if len(gaps) > 1 else 0.0
    rest, rest_degrees = max(seeds.rest, of_pair), seeds.rest_degrees
    if not rest_degrees:
        paired, rest, rest_degrees = 0.0, seeds.variance, seeds.degrees_of_freedom
    of_run = LossDifference(0.0, (first + base - paired) * seeds.variance, seeds.degrees_of_freedom)
    of_rest = LossDifference(0.0, paired * rest, rest_degrees)
    variance, degrees = add_variances([difference, of_run, of_rest])
    covariance = paired / 2 * (seeds.variance - rest)  # of the two means
    return replace(
        difference,
        variance=variance,
        degrees_of_freedom=degrees,
        base_variance=difference.base_variance + base * seeds.variance,
        base_covariance=difference.base_covariance + covariance - base * seeds.variance,
    )


def sum_losses(losses: np.ndarray, observations: np.ndarray) -> np.ndarray:
    """Sum the losses of the windows that make one observation, such as those of a date, in ascending order.

    Windows of many series that start on the same date share its shocks, so they count as one observation. The sums
    are scaled so that their mean equals the mean loss of all windows.

    `losses` and `observations`, such as forecast starts, are those of each window (n_windows,); there is a scaled sum
    for each observation (n_observations,).
    """
    _, number = np.unique(observations, return_inverse=True)
    sums = np.bincount(number, weights=losses)
    return sums * (len(sums) / len(losses))


def step_down(tests: Mapping[str, LossDifference], factor: int | float) -> dict[str, LossDifference]:
    """Correct tests against one forecaster for their number by the step-down method of Holm (1979).

    The smallest p-value is multiplied by `factor` times the number of tests. Once a test is significant, it no longer
    counts for the others. Each interval has the factor of its own test, so it excludes 0 where that is significant.

    The factor is 1 for a forecaster that was named before; then no equal forecaster is called different with a
    probability of at least 95%. It is K / 2 for tests of K forecasters against the one with the lowest loss: each may
    be that one, all differences from it are positive, and the probabilities of a wrong verdict, which are then at most
    5% / K for one-sided tests, add up. It is K for tests of others, such as baselines, against it.
    """
    factors = holm_factors({name: test.p_value for name, test in tests.items()}, factor)
    return {name: replace(test, comparisons=factors[name]) for name, test in tests.items()}


def holm_factors(p_values: Mapping[str, float], factor: int | float = 1) -> dict[str, int | float]:
    """The factor of each p-value in the step-down method of Holm (1979): the tests that are left, times `factor`.

    Tests are made in the order of their p-values, NaN last; one that is significant leaves one less.
    """
    factors, left = dict[str, int | float](), len(p_values)
    for name in sorted(p_values, key=lambda name: np.nan_to_num(p_values[name], nan=1.0)):
        factors[name] = factor * left
        left -= factors[name] * p_values[name] < SIGNIFICANCE_LEVEL
    return factors
