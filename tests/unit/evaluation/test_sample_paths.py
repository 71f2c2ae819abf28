"""Sample paths: their quantiles, the dependence that they take from errors, intervals of sums, and their scores."""

import numpy as np
import pytest
import torch
from torch import Tensor

from experiments.sample_paths import draw_both, energy_score, intervals_of_sums, variogram_score
from forecast.evaluation.sample_paths import draw_sample_paths, interpolate_quantiles, rank_trajectories
from tests.support.calibrations import calibrate_errors
from tests.support.windows import windows_over

STEPS = 24


def autoregressive(windows: int, generator: torch.Generator) -> Tensor:
    """Windows of a standardised AR(1) process of coefficient 0.9, with a second variable, minus the first."""
    found = [torch.randn(windows, generator=generator)]
    for _ in range(STEPS - 1):
        found.append(0.9 * found[-1] + (1 - 0.9**2) ** 0.5 * torch.randn(windows, generator=generator))
    return torch.stack([torch.stack(found, 1), -torch.stack(found, 1)], 2)


def test_intervals_of_sums_cover_their_level_as_neither_bounds_nor_independent_draws_do() -> None:
    generator = torch.Generator().manual_seed(0)
    calibration = calibrate_errors(autoregressive(400, generator), horizons=400)
    quantiles = calibration.around(torch.zeros(500, STEPS, 2))
    torch.manual_seed(0)
    drawn, truth = draw_both(quantiles, calibration, 200), autoregressive(500, generator).sum(1)
    assert drawn["samples"].sum(2).std() < 0.3 * drawn["independent"].sum(2).std()  # the variables are opposite
    for level, bounds, independent in ((80, 0.88, 0.5), (95, 0.97, 0.7)):
        found = intervals_of_sums(quantiles, calibration, drawn, level)
        coverage = {name: ((low <= truth) & (truth <= high)).double().mean() for name, (low, high) in found.items()}
        assert coverage["samples"] == pytest.approx(level / 100, abs=0.03)
        assert coverage["bounds"] > bounds
        assert coverage["independent"] < independent


@pytest.mark.parametrize("samples", [1, 7, 200, 999])
def test_samples_have_the_quantiles_from_which_they_are_drawn(samples: int) -> None:
    errors = torch.randn(60, 3, 2, generator=torch.Generator().manual_seed(0))
    errors[::2, 1], errors[::7, 2] = 0.0, torch.nan  # equal ones, as of rare demand; missing ones
    found = calibrate_errors(errors, horizons=20)
    assert found.ranks is not None
    quantiles = found.around(torch.randn(2, 3, 2))
    drawn = draw_sample_paths(quantiles, found.quantiles, found.ranks, samples, seed=1)
    assert torch.equal(drawn, draw_sample_paths(quantiles, found.quantiles, found.ranks, samples, seed=1))
    for i, p in enumerate(found.quantiles):
        below = (drawn < quantiles[..., [i]] - 1e-6).sum(-1)
        assert (below <= p * samples + 1).all()
        assert ((drawn <= quantiles[..., [i]] + 1e-6).sum(-1) >= p * samples - 1).all()


def test_quantiles_never_cross() -> None:
    at, quantiles = (0.1, 0.4, 0.5, 0.9), torch.tensor([[0.0, 2.0, 1.0, 1.0]])
    probability = torch.linspace(0, 1, 1_001, dtype=torch.float64)[None]
    found = interpolate_quantiles(quantiles, at, probability)
    assert found.isfinite().all()
    assert (found.diff() >= 0).all()
    normal = torch.distributions.Normal(3.0, 2.0)
    known = normal.icdf(torch.tensor(at))[None]
    inner = probability[:, 1:-1]
    torch.testing.assert_close(interpolate_quantiles(known, at, inner), normal.icdf(inner))


def test_series_on_the_same_dates_are_drawn_jointly() -> None:
    errors = torch.randn(40, 3, 1, generator=torch.Generator().manual_seed(0))
    both = torch.cat([errors, 5 * errors])  # of two series
    places = torch.arange(80).view(2, 40)
    joint, pooled = (rank_trajectories(both, horizons, places) for horizons in (80, 9))
    assert (joint.shape, pooled.shape) == ((40, 2, 3, 1), (80, 1, 3, 1))
    assert torch.equal(joint[:, 0], joint[:, 1])
    quantiles = torch.randn(2, 3, 1, 9).sort().values
    for ranks, correlation in ((joint, 1.0), (pooled, 0.0)):
        sums = draw_sample_paths(quantiles, [n / 10 for n in range(1, 10)], ranks, 400, seed=0).sum((1, 2)).numpy()
        assert np.corrcoef(sums.argsort().argsort())[0, 1] == pytest.approx(correlation, abs=0.15)
    both[3] = torch.nan  # a date of one series without truth
    assert rank_trajectories(both, 80, places).shape == (39, 2, 3, 1)
    assert rank_trajectories(both, 80, places[:, :4]).shape == (79, 1, 3, 1)  # of 4 horizons on common dates
    assert rank_trajectories(torch.randn(900, 96, 321), 30).shape == (34, 1, 96, 321)  # 1 MiB


def test_windows_are_aligned_on_the_dates_that_every_series_has() -> None:
    windows = windows_over(
        torch.zeros(40, 1), torch.zeros(60, 1), starts=[range(10), range(20, 30)], seq_len=4, pred_len=2,
        target_index=[0],
    )  # fmt: skip
    every, third = torch.arange(20), torch.arange(0, 20, 3)
    for shifts, index, expected in (
        ([20, 0], every, [range(10), range(10, 20)]),
        ([25, 0], every, [range(5), range(15, 20)]),
        ([20, 0], third, [[], []]),
        ([22, 0], third, [[0, 1, 2], [4, 5, 6]]),
    ):
        windows.time.shifts[:] = torch.tensor(shifts)
        assert windows.align(index).tolist() == [list(each) for each in expected]


def test_scores_are_those_of_plain_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    samples, truth = torch.randn(2, 4, 9, generator=generator), torch.randn(2, 4, generator=generator)
    for row in range(2):
        x, y = samples[row].double().numpy().T, truth[row].double().numpy()
        near = np.mean([np.linalg.norm(one - y) for one in x])
        apart = np.mean([np.linalg.norm(one - other) for one in x for other in x])
        assert energy_score(samples, truth)[row].item() == pytest.approx(near - apart / 2, rel=1e-5)
        roots = [(abs(y[i] - y[j]) ** 0.5, [abs(path[i] - path[j]) ** 0.5 for path in x]) for i, j in np.ndindex(4, 4)]
        pairs = [(observed - np.mean(found)) ** 2 for observed, found in roots]
        assert variogram_score(samples, truth)[row].item() == pytest.approx(np.mean(pairs), rel=1e-4)
