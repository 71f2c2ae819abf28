"""The test of equal accuracy: against an oracle, against another method, and by how often it is wrong."""

import math

import mpmath
import numpy as np
import pytest

from forecast.evaluation.significance import (
    LossDifference,
    SeedVariance,
    add_seed_variance,
    choose_observations,
    diebold_mariano,
    holm_factors,
    step_down,
    sum_losses,
)

RNG = np.random.default_rng


def slow_oracle(difference: list[float], overlap: int) -> tuple[float, int, float]:
    """The docstring's formulas word for word, and Student's t as an incomplete beta function."""
    n = len(difference)
    freedom = max(1, min(math.floor(0.4 * n ** (2 / 3)), n // (4 * overlap)))
    squares = []
    for j in range(1, freedom + 1):
        swing = sum(d * math.cos(math.pi * j * (t - 0.5) / n) for t, d in enumerate(difference, start=1))
        squares.append((math.sqrt(2 / n) * swing) ** 2)
    statistic = math.sqrt(n) * (sum(difference) / n) / math.sqrt(sum(squares) / freedom)
    x = freedom / (freedom + statistic**2)
    return statistic, freedom, float(mpmath.betainc(freedom / 2, 0.5, 0, x, regularized=True))


@pytest.mark.parametrize(("n", "overlap"), [(5, 1), (37, 4), (100, 50), (400, 24), (401, 3)])
def test_agrees_with_its_formula_written_out(n: int, overlap: int) -> None:
    first, second = RNG(n).normal(0.3, 1, n), RNG(n + 1).normal(size=n)
    found = diebold_mariano(first, second, overlap)
    statistic, freedom, p_value = slow_oracle((first - second).tolist(), overlap)
    assert found.degrees_of_freedom == freedom
    assert found.mean == pytest.approx(np.mean(first - second))
    assert found.statistic == pytest.approx(statistic, rel=1e-9)
    assert found.p_value == pytest.approx(p_value, rel=1e-9)


def windows(n: int, horizon: int, rng: np.random.Generator) -> np.ndarray:
    """Losses of overlapping windows whose steps are independent: a moving average over the horizon."""
    return np.convolve(rng.normal(size=n + horizon - 1), np.ones(horizon) / horizon, "valid")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "horizon"), [(600, 1), (600, 24), (1200, 24), (2000, 96), (1200, 336)])
def test_equal_forecasters_differ_significantly_as_rarely_as_promised(n: int, horizon: int) -> None:
    rng, trials = RNG(n + horizon), 2000
    tests = (diebold_mariano(windows(n, horizon, rng), np.zeros(n), horizon) for _ in range(trials))
    rejected = sum(test.p_value < 0.05 for test in tests)
    assert 0.035 < rejected / trials < 0.07  # three standard errors are 0.015


def test_series_that_share_the_shocks_of_a_date_say_no_more_than_one() -> None:
    n_series, n_dates, horizon, trials = 20, 120, 7, 100
    dates, rng, alone, grouped = np.tile(np.arange(n_dates), n_series), RNG(0), 0, 0
    for _ in range(trials):
        shared = windows(n_dates, horizon, rng)
        losses = np.tile(shared, n_series) + 0.1 * rng.normal(size=n_series * n_dates)
        of_dates = sum_losses(losses, dates)
        assert of_dates.mean() == pytest.approx(losses.mean())
        alone += diebold_mariano(losses, 0 * losses, horizon).p_value < 0.05
        grouped += diebold_mariano(of_dates, 0 * of_dates, horizon).p_value < 0.05
    assert grouped / trials < 0.08 < 0.5 < alone / trials


@pytest.mark.parametrize(
    ("n_dates", "n_series", "chosen"), [(300, 50, "dates"), (48, 50, "dates"), (47, 50, "series"), (1, 50, "series")]
)
def test_many_series_take_the_place_of_too_few_dates(n_dates: int, n_series: int, chosen: str) -> None:
    dates, series = np.tile(np.arange(n_dates), n_series), np.repeat(np.arange(n_series), n_dates)
    observations, overlap = choose_observations(dates, series, 24)
    assert (observations is dates, overlap) == ((True, 24) if chosen == "dates" else (False, 1))


def test_too_few_windows_give_no_answer() -> None:
    found = diebold_mariano(RNG(0).normal(size=47), np.zeros(47), overlap=24)
    assert math.isnan(found.p_value)
    assert math.isnan(found.adjusted_p_value)
    assert not math.isnan(diebold_mariano(RNG(0).normal(size=48), np.zeros(48), overlap=24).p_value)


def compare_with(
    reference: str, losses: dict[str, np.ndarray], overlap: int, runs: dict[str, dict[int, float]] | None = None,
    *, factor: float,
) -> dict[str, LossDifference]:  # fmt: skip
    """Test all others against a forecaster; `runs` are the mean losses of each run by seed."""
    runs = runs or {name: {} for name in losses}
    seeds = SeedVariance.estimate(runs.values())
    tests = {name: diebold_mariano(losses[name], losses[reference], overlap) for name in losses if name != reference}
    own = {name: add_seed_variance(test, seeds, runs[name], runs[reference]) for name, test in tests.items()}
    return step_down(own, factor)


@pytest.mark.parametrize("factor", [1, 2])
def test_p_values_are_adjusted_as_holm_does(factor: int) -> None:
    """Each significant test no longer counts for the others; it does from the first one that is not."""
    rng = RNG(3)
    losses = {name: windows(600, 12, rng) + shift for name, shift in zip("abcd", (0, 0.02, 0.5, 1), strict=True)}
    for rank, (name, difference) in enumerate(compare_with("a", losses, 12, factor=factor).items(), start=1):
        alone = diebold_mariano(losses[name], losses["a"], 12)
        assert difference.p_value == alone.p_value == alone.adjusted_p_value
        assert difference.comparisons == rank * factor
        assert difference.adjusted_p_value == min(1, rank * factor * alone.p_value)
        low, high = difference.interval()
        assert (low > 0 or high < 0) == (difference.adjusted_p_value < 0.05)
    level = step_down({name: LossDifference(0.5, 1.0, 9.0) for name in "bcd"}, factor)
    assert {one.comparisons for one in level.values()} == {3 * factor}


def find_worse(
    gaps: list[float], seeds: list[range], correlations: list[float], rng: np.random.Generator, *, pairs: bool = True
) -> set[int]:
    """The variants called worse than the best one. Losses are the gap plus a normal variable, partly of the seed.

    Windows add next to nothing to their variance. Without `pairs`, the tests take all seeds as different.
    """
    shared, runs = rng.normal(size=6), []
    for gap, own, share in zip(gaps, seeds, correlations, strict=True):
        rest = rng.normal(size=6)
        runs.append({seed: gap + math.sqrt(share) * shared[seed] + math.sqrt(1 - share) * rest[seed] for seed in own})
    if not pairs:
        runs = [{10 * i + seed: loss for seed, loss in one.items()} for i, one in enumerate(runs)]
    means = [float(np.mean(list(one.values()))) for one in runs]
    best, variance = int(np.argmin(means)), SeedVariance.estimate(runs)
    tests = {
        str(i): add_seed_variance(LossDifference(means[i] - means[best], 1e-9, 9.0), variance, one, runs[best])
        for i, one in enumerate(runs)
        if i != best
    }
    corrected = step_down(tests, len(runs) / 2)
    return {int(name) for name, one in corrected.items() if one.adjusted_p_value < 0.05}


SETS = [range(3), range(1, 4), range(5), range(4, 6)], [range(3), range(3), range(3), range(3, 6)]
"""Unequal sets of seeds: overlapping ones, and one that shares none."""


@pytest.mark.parametrize(
    ("seeds", "correlations", "level"),
    [
        ([range(3)] * 2, [0.95] * 2, 0.05),
        ([range(3)] * 8, [0.5] * 8, 0.05),
        *(
            pytest.param(seeds, [correlation] * len(seeds), 0.05, marks=pytest.mark.slow)
            for seeds in (*SETS, *([range(n)] * variants for variants in (2, 8) for n in (2, 3, 5)))
            for correlation in (0.0, 0.95)
        ),
        # a variant whose runs have nothing in common with those of seven similar ones
        pytest.param([range(5)] * 8, [0.0, *[0.95] * 7], 0.05, marks=pytest.mark.slow),
        pytest.param([range(3)] * 8, [0.0, *[0.95] * 7], 0.1, marks=pytest.mark.slow),
    ],
)
def test_equal_variants_are_rarely_told_apart(seeds: list[range], correlations: list[float], level: float) -> None:
    rng, trials = RNG(len(seeds)), 300
    wrong = sum(bool(find_worse([0.0] * len(seeds), seeds, correlations, rng)) for _ in range(trials))
    assert wrong / trials <= level + 2 * math.sqrt(level * (1 - level) / trials)  # two standard errors


def test_pairing_finds_a_difference_of_one_standard_deviation_between_correlated_runs() -> None:
    rng, gaps, trials = RNG(0), [0.0] * 7 + [1.0], 80
    paired, unpaired = (
        sum(7 in find_worse(gaps, [range(3)] * 8, [0.95] * 8, rng, pairs=pairs) for _ in range(trials)) / trials
        for pairs in (True, False)
    )
    assert unpaired < 0.2 < 0.85 < paired


def test_the_variance_over_seeds_is_that_of_the_two_way_model() -> None:
    """Against sums of squares written out; degrees of freedom are those of Welch and Satterthwaite."""
    losses = RNG(2).normal(size=(3, 4))
    runs = [dict(enumerate(one)) for one in losses.tolist()]
    effect = losses.mean(0) - losses.mean()
    rest = losses - losses.mean(1, keepdims=True) - effect
    own, of_seeds = (rest**2).sum(), 3 * (effect**2).sum()
    seeds = SeedVariance.estimate([*runs, {7: 5.0, 8: 5.0}, {9: 1.0}])  # no seed changes the loss, or there is one
    assert (seeds.rest, seeds.rest_degrees) == (pytest.approx(own / 6), 6)
    assert seeds.variance == pytest.approx(np.mean(losses.var(1, ddof=1)))
    assert seeds.degrees_of_freedom == pytest.approx((own + of_seeds) ** 2 / (own**2 / 6 + of_seeds**2 / 3))
    alone = SeedVariance.estimate([{1: 1.0, 2: 3.0}, {3: 2.0, 4: 2.0, 5: 5.0}, {5: 7.0}])
    assert (alone.variance, alone.degrees_of_freedom) == (pytest.approx((2 + 6) / 3), 3)
    assert alone.rest_degrees == 0

    of_windows = diebold_mariano(RNG(0).normal(size=500), RNG(1).normal(size=500), 5)
    found = add_seed_variance(of_windows, seeds, runs[0], dict(list(runs[1].items())[:2]))
    parts = (1 / 4 + 1 / 2 - 4 / 8) * seeds.variance, 4 / 8 * seeds.rest
    degrees = of_windows.degrees_of_freedom, seeds.degrees_of_freedom, 6
    total = of_windows.variance + sum(parts)
    assert (found.mean, found.variance) == (of_windows.mean, pytest.approx(total))
    squares = zip((of_windows.variance, *parts), degrees, strict=True)
    assert found.degrees_of_freedom == pytest.approx(total**2 / sum(v**2 / freedom for v, freedom in squares))


def test_the_relative_interval_counts_the_covariance_with_the_reference() -> None:
    """Two variants with the same luck over seeds: the ratio of their losses is known although neither loss is."""
    losses, luck = np.ones(400) + 0.01 * RNG(0).normal(size=400), [0.8, 1.0, 1.2]
    runs = {name: {seed: factor * one for seed, one in enumerate(luck)} for name, factor in (("a", 1.0), ("b", 1.1))}
    found = compare_with("a", {"a": losses, "b": 1.1 * losses}, 4, runs, factor=1)["b"]
    low, high = found.relative_interval()
    assert 0.0 < low < 0.1 < high < 0.3
    unpaired = {"a": runs["a"], "b": {seed + 3: loss for seed, loss in runs["b"].items()}}
    found = compare_with("a", {"a": losses, "b": 1.1 * losses}, 4, unpaired, factor=1)["b"]
    assert found.relative_interval()[0] < -0.2


@pytest.mark.parametrize("ratio", [0.05, 0.8, 1.0, 3.0])
def test_the_relative_interval_holds_the_ratio_of_the_losses_and_agrees_with_the_test(ratio: float) -> None:
    rng, trials, held = RNG(1), 200, 0
    for _ in range(trials):
        shared = rng.normal(size=1223)
        errors = [(shared + rng.normal(size=1223)) ** 2 for _ in range(2)]
        first, second = (np.convolve(each, np.ones(24) / 24, "valid") for each in errors)
        found = diebold_mariano(ratio * first, second, 24, comparisons=1)
        low, high = found.relative_interval()
        assert -1 < low < high
        assert (low > 0 or high < 0) == (found.adjusted_p_value < 0.05)
        held += low < ratio - 1 < high
    assert 0.90 < held / trials < 0.995  # three standard errors are 0.046


def test_no_relative_interval_reaches_a_negative_loss() -> None:
    losses = RNG(0).normal(size=(2, 200)) ** 2
    few = diebold_mariano(*losses, 28, comparisons=3)  # type: ignore[call-arg]
    low, _ = few.interval()
    assert low < -few.base  # as if the loss could be negative
    assert np.isnan(few.relative_interval()).all()
    assert few.independent == pytest.approx(200 / 28)


@pytest.mark.parametrize(
    ("p_values", "factors"),
    [
        ({"errors": 0.02, "coverage": 0.01, "inputs": 0.5}, {"errors": 2, "coverage": 3, "inputs": 1}),
        ({"errors": 0.03, "coverage": 0.029, "inputs": math.nan}, {"errors": 3, "coverage": 3, "inputs": 3}),
    ],
)
def test_p_values_are_multiplied_as_holm_does(p_values: dict[str, float], factors: dict[str, int]) -> None:
    assert holm_factors(p_values) == factors
