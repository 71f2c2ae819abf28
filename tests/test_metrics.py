import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from forecast.metrics import SCORES, ErrorSums, window_errors

WINDOWS, STEPS, VARIABLES = 11, 5, 3
CENTER = torch.tensor([10.0, -4.0, 0.5], dtype=torch.float64)
SCALE = torch.tensor([2.0, 0.1, 30.0], dtype=torch.float64)
NAIVE = torch.tensor([1.5, 0.2, 12.0], dtype=torch.float64)


def forecasts() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shape = (WINDOWS, STEPS, VARIABLES)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def summed(batches: list[int]) -> ErrorSums:
    sums = ErrorSums(STEPS, CENTER, SCALE, NAIVE)
    prediction, target = forecasts()
    for p, t in zip(prediction.split(batches), target.split(batches), strict=True):
        sums.update(p, t)
    return sums


def plain(prediction: np.ndarray, target: np.ndarray, v: int) -> dict[str, float]:
    """The definitions, for one variable, in data units."""
    scale, center = SCALE[v].item(), CENTER[v].item()
    e = prediction - target
    y, y_hat = target * scale + center, prediction * scale + center
    return {
        "mse": (e**2).mean(),
        "mae": abs(e).mean(),
        "rmse_raw": np.sqrt(((y - y_hat) ** 2).mean()),
        "mae_raw": abs(y - y_hat).mean(),
        "smape": (200 * abs(y - y_hat) / (abs(y) + abs(y_hat))).mean(),
        "wape": abs(y - y_hat).sum() / abs(y).sum(),
        "mase": abs(y - y_hat).mean() / NAIVE[v].item(),
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


@given(st.lists(st.integers(0, WINDOWS), max_size=5))
@settings(max_examples=30, deadline=None)
def test_batch_size_never_changes_a_score(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), WINDOWS]
    batches = [b - a for a, b in itertools.pairwise(edges)]  # batches of no windows among them
    assert summed(batches).scores() == pytest.approx(summed([WINDOWS]).scores(), rel=1e-12)


def test_undefined_ratios_leave_their_variable_out() -> None:
    sums = ErrorSums(2, torch.zeros(2), torch.ones(2), torch.tensor([0.0, 2.0]))
    sums.update(torch.tensor([[[1.0, 1.0], [1.0, 1.0]]]), torch.tensor([[[0.0, 4.0], [0.0, 4.0]]]))
    scores = sums.scores()
    assert scores["wape"] == pytest.approx(3 / 4)
    assert scores["mase"] == pytest.approx(3 / 2)
    assert sums.by_variable()["mase"].isnan().tolist() == [True, False]


def test_smape_of_zero_against_zero_is_zero() -> None:
    sums = ErrorSums(1, torch.zeros(1), torch.ones(1), torch.ones(1))
    sums.update(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))
    assert sums.scores()["smape"] == 0


def test_window_errors_average_to_the_scores() -> None:
    prediction, target = forecasts()
    each = window_errors(prediction, target)
    scores = summed([WINDOWS]).scores()
    assert each.shape == (WINDOWS, 2)
    assert each.mean(0).tolist() == pytest.approx([scores["mse"], scores["mae"]], rel=1e-6)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_forecast_that_is_not_finite_has_no_good_score(wrong: float) -> None:
    sums = ErrorSums(1, torch.zeros(2), torch.ones(2), torch.ones(2))
    sums.update(torch.tensor([[[wrong, 1.0]]]), torch.tensor([[[1.0, 2.0]]]))
    assert not any(np.isfinite(score) for score in (sums.scores()[name] for name in ("mse", "mae", "smape")))
    assert not np.isfinite(sums.by_variable()["wape"][0].item())


def test_sums_brought_back_from_a_device_are_scored() -> None:
    """After a pass on an accelerator the scales are still there, and the sums on the CPU."""
    errors = ErrorSums(2, *(torch.ones(3, dtype=torch.float64) for _ in range(3)))
    errors.update(torch.zeros(1, 2, 3), torch.ones(1, 2, 3))
    with FakeTensorMode(allow_non_fake_inputs=True):
        for name in ("scale", "naive_mae"):
            setattr(errors, name, torch.ones(3, dtype=torch.float64, device="cuda"))
        errors.sums, errors.count = (
            torch.ones(4, 2, 3, dtype=torch.float64),
            torch.ones((), dtype=torch.float64),
        )
        assert all(score.device.type == "cpu" for score in errors.by_variable().values())


def test_zeros_that_float32_moved_are_zeros() -> None:
    """A truth of 0 comes back from scaling as some 1e-8, and must not decide a ratio."""
    center, scale = torch.tensor([0.3, 2.0]), torch.tensor([0.1, 7.0])
    truth = ((torch.zeros(5, 4, 2) - center) / scale).float()
    sums = ErrorSums(4, center, scale, naive_mae=torch.ones(2))
    sums.update(truth + 1e-6, truth)
    assert sums.scores()["smape"] == 0
    assert math.isnan(sums.scores()["wape"])
    sums.update(truth + 0.01, truth)
    assert sums.scores()["smape"] == pytest.approx(100, rel=1e-3)
