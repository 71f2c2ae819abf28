import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.scaler import Scaler
from forecast.evaluation.errors import Errors, ErrorSums, window_errors
from forecast.evaluation.intervals import crps, pinball
from forecast.evaluation.scores import DECILES, SCORES

WINDOWS, STEPS, VARIABLES = 11, 5, 3
CENTER = torch.tensor([[10.0, -4.0, 0.5]], dtype=torch.float64)
SCALE = torch.tensor([[2.0, 0.1, 30.0]], dtype=torch.float64)
NAIVE = torch.tensor([[1.5, 0.2, 12.0]], dtype=torch.float64)


def quantiles_around(prediction: torch.Tensor) -> torch.Tensor:
    """Deciles of a normal distribution with a standard deviation of 0.5."""
    return prediction[..., None] + 0.5 * torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(DECILES))


def add(sums: ErrorSums, prediction: torch.Tensor, target: torch.Tensor) -> None:
    of_values = crps(pinball(quantiles_around(prediction), target, DECILES), DECILES)
    sums.update(prediction, target, torch.zeros(len(target), dtype=torch.int64), of_values)


def forecasts() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shape = (WINDOWS, STEPS, VARIABLES)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def summed(batches: list[int]) -> Errors:
    sums = ErrorSums(STEPS, Scaler(CENTER, SCALE), NAIVE)
    prediction, target = forecasts()
    for p, t in zip(prediction.split(batches), target.split(batches), strict=True):
        add(sums, p, t)
    return sums.compute()


def plain_crps(error: np.ndarray) -> float:
    """Twice the pinball losses of the deciles, each weighted by the part of (0, 1) that is nearest to it."""
    offsets = quantiles_around(torch.zeros(())).double().numpy()
    losses = [np.maximum(p * (-error - q), (p - 1) * (-error - q)) for p, q in zip(DECILES, offsets, strict=True)]
    weights = [0.15, *[0.1] * 7, 0.15]
    return 2 * sum(w * loss.mean() for w, loss in zip(weights, losses, strict=True))


def plain(prediction: np.ndarray, target: np.ndarray, v: int) -> dict[str, float]:
    scale, center = SCALE[0, v].item(), CENTER[0, v].item()
    e = prediction - target
    y, y_hat = target * scale + center, prediction * scale + center
    return {
        "mse": (e**2).mean(),
        "mae": abs(e).mean(),
        "crps": plain_crps(e),
        "rmse_raw": np.sqrt(((y - y_hat) ** 2).mean()),
        "mae_raw": abs(y - y_hat).mean(),
        "smape": (200 * abs(y - y_hat) / (abs(y) + abs(y_hat))).mean(),
        "wape": abs(y - y_hat).sum() / abs(y).sum(),
        "mase": abs(y - y_hat).mean() / NAIVE[0, v].item(),
    }


def test_scores_follow_their_definitions() -> None:
    prediction, target = (x.double().numpy() for x in forecasts())
    sums = summed([WINDOWS])
    each = [plain(prediction[..., v], target[..., v], v) for v in range(VARIABLES)]
    for name in SCORES:
        assert sums.by_variable()[name].tolist() == pytest.approx([e[name] for e in each])
        assert sums.scores()[name] == pytest.approx(np.mean([e[name] for e in each]))
    by_step = [
        np.mean([plain(prediction[:, h, v], target[:, h, v], v)["wape"] for v in range(VARIABLES)])
        for h in range(STEPS)
    ]
    assert sums.by_step()["wape"].tolist() == pytest.approx(by_step)


def test_the_crps_of_a_target_without_calibration_is_its_absolute_error() -> None:
    prediction, target = forecasts()
    of_values = torch.full_like(target, torch.nan)
    sums = ErrorSums(STEPS, Scaler(CENTER, SCALE), NAIVE)
    series = torch.zeros(len(target), dtype=torch.int64)
    sums.update(prediction, target, series, of_values)
    scores = sums.compute().scores()
    assert scores["crps"] == pytest.approx(scores["mae"])
    each = window_errors(prediction, target, Scaler(CENTER, SCALE), series, of_values)
    torch.testing.assert_close(each[:, 2], each[:, 1])


@given(st.lists(st.integers(0, WINDOWS), max_size=5))
@settings(max_examples=10)
def test_batch_size_never_changes_a_score(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), WINDOWS]
    batches = [b - a for a, b in itertools.pairwise(edges)]  # batches of no windows among them
    assert summed(batches).scores() == pytest.approx(summed([WINDOWS]).scores(), rel=1e-12)


def test_undefined_ratios_leave_their_variable_out() -> None:
    sums = ErrorSums(2, Scaler(torch.zeros(1, 2), torch.ones(1, 2)), torch.tensor([[0.0, 2.0]]))
    add(sums, torch.tensor([[[1.0, 1.0], [1.0, 1.0]]]), torch.tensor([[[0.0, 4.0], [0.0, 4.0]]]))
    scores = sums.compute().scores()
    assert scores["wape"] == pytest.approx(3 / 4)
    assert scores["mase"] == pytest.approx(3 / 2)
    assert sums.compute().by_variable()["mase"].isnan().tolist() == [True, False]


def test_series_are_averaged_in_their_own_units() -> None:
    """A series ten times as large does not drown the other; one without windows does not count."""
    prediction, target = forecasts()
    scale = torch.cat([SCALE, 10 * SCALE, SCALE])
    sums = ErrorSums(STEPS, Scaler(CENTER.repeat(3, 1), scale), NAIVE.repeat(3, 1))
    series = torch.tensor([0] * 4 + [1] * 7)
    sums.update(prediction, target, series)
    alone = [ErrorSums(STEPS, Scaler(CENTER, scale[s : s + 1]), NAIVE) for s in (0, 1)]
    for s, own in enumerate(alone):
        add(own, prediction[series == s], target[series == s])
    scores, (one, two) = sums.compute().scores(), [own.compute().scores() for own in alone]
    for name in ("rmse_raw", "mae_raw", "smape", "wape", "mase"):
        assert scores[name] == pytest.approx((one[name] + two[name]) / 2)
    assert scores["mse"] == pytest.approx((4 * one["mse"] + 7 * two["mse"]) / 11)
    assert sums.compute().by_series()["mse"][2].isnan().all()
    assert set(sums.compute().by_step()) == {"mse", "mae", "crps", "smape"}


def test_zeros_that_float32_moved_are_zeros() -> None:
    """A truth of 0 comes back from scaling as some 1e-8, and must not decide a ratio."""
    center, scale = torch.tensor([0.3, 2.0]), torch.tensor([0.1, 7.0])
    truth = ((torch.zeros(5, 4, 2) - center) / scale).float()
    sums = ErrorSums(4, Scaler(center[None], scale[None]), naive_mae=torch.ones(1, 2))
    add(sums, truth + 1e-6, truth)
    assert sums.compute().scores()["smape"] == 0
    assert math.isnan(sums.compute().scores()["wape"])
    add(sums, truth + 0.01, truth)
    assert sums.compute().scores()["smape"] == pytest.approx(100, rel=1e-3)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_forecast_that_is_not_finite_has_no_good_score(wrong: float) -> None:
    sums = ErrorSums(1, Scaler(torch.zeros(1, 2), torch.ones(1, 2)), torch.ones(1, 2))
    add(sums, torch.tensor([[[wrong, 1.0]]]), torch.tensor([[[1.0, 2.0]]]))
    errors = sums.compute()
    assert not any(np.isfinite(score) for score in (errors.scores()[name] for name in ("mse", "mae", "smape")))
    assert not np.isfinite(errors.by_variable()["wape"][0].item())
