"""Ranks over data sets, the critical difference of Nemenyi, and the bootstrap over seeds."""

import math

import numpy as np
import pytest

from forecast.evaluation.significance import bootstrap_skill, critical_difference, rank_errors


def test_equal_errors_share_the_mean_of_their_ranks() -> None:
    errors = np.array([[0.3, 0.1, 0.2], [0.1, 0.1 * (1 + 1e-9), 0.2], [1.0, 1.0, 1.0]])
    assert rank_errors(errors, 1e-6).tolist() == [[3, 1, 2], [1.5, 1.5, 3], [2, 2, 2]]


def test_the_critical_difference_of_demsars_example() -> None:
    """Demšar (2006), section 3.2.3: four classifiers on 14 data sets; the printed value is 1.25."""
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_the_skill_is_one_minus_the_geometric_mean_of_relative_errors() -> None:
    errors = [np.array([0.5, 0.5]), np.array([2.0])]
    skill, low, high = bootstrap_skill(errors, np.array([1.0, 4.0]))
    assert (skill, low, high) == pytest.approx((0.5, 0.5, 0.5))
    assert all(map(math.isnan, bootstrap_skill([np.array([0.5])], np.array([1.0]))[1:]))


@pytest.mark.parametrize(("sets", "seeds"), [(1, 8), (2, 3)])
def test_the_bootstrap_interval_covers_the_true_skill(sets: int, seeds: int) -> None:
    """In about 95% of 300 simulations, and slightly less with few seeds. Without the factor √(n/(n − 1)), three seeds
    cover it in 86%."""
    random = np.random.default_rng(0)
    true, covered = np.tile([0.8, 0.5, 0.9], sets), 0
    expected = 1 - float(np.exp(np.log(true).mean()))
    for _ in range(300):
        errors = [mean * (1 + 0.05 * random.normal(size=seeds)) for mean in true]
        _, low, high = bootstrap_skill(errors, np.ones(3 * sets))
        covered += low <= expected <= high
    assert 0.89 <= covered / 300 <= 0.98
