"""The closed forms beside linear models fitted and measured on every window, one by one."""

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, frame_data, sample_data
from forecast.evaluation.baselines import FittedBaselines, Linear
from forecast.linear.fit import (
    Choice,
    average_lookbacks,
    choose_linear_model,
    fit_and_test_grams,
    fit_lookbacks,
    solve_recent,
)
from forecast.linear.gram import Gram, window_gram

SEQ_LEN, PRED_LEN = 12, 5


def gram_pairs(made: DataModule) -> list[tuple[Gram, Gram]]:
    return list(fit_and_test_grams(made, window_gram(made.windows["train"])))


def data() -> DataModule:
    made = sample_data(name="sample", seq_len=SEQ_LEN, pred_len=PRED_LEN, split=[0.5, 0.1, 0.4])
    made.setup()
    return made


def each(split: str, made: DataModule) -> tuple[torch.Tensor, torch.Tensor]:
    """Every window and variable as a row: pasts, futures."""
    windows = made.windows[split]
    batch = windows.gather(torch.arange(len(windows)))
    return batch.past.mT.flatten(0, 1).double(), batch.future.mT.flatten(0, 1).double()


def test_averaged_lookbacks_forecast_the_mean_of_the_forecasts() -> None:
    made = data()
    gram = window_gram(made.windows["train"])
    past, _ = each("test", made)
    by_hand, weights = [], []
    for lookback in (12, 6, 3):
        recent = past[:, -lookback:]
        mean = recent.mean(1, keepdim=True)
        weights.append(solve_recent(gram, lookback, 0.1, ())[0])
        by_hand.append((recent - mean) @ weights[-1] + mean)
    torch.testing.assert_close(past @ average_lookbacks(weights), torch.stack(by_hand).mean(0))
    torch.testing.assert_close(past @ fit_lookbacks(gram, 3, 0.1, ())[0], torch.stack(by_hand).mean(0))


def test_each_origin_is_tested_on_later_windows() -> None:
    """The windows that measure the error have horizons after all rows that the model was fitted on."""
    made = data()
    rows = made.windows["train"].values.tensor.double()
    ends = [4_357, 5_808, 7_259, 8_710]  # three, four and five sixths of the training rows, and all of them
    found = gram_pairs(made)
    assert len(found) == 4
    for (before, after), end, stop in zip(found, ends, [*ends[1:], int(made.rows["val"][1][0])], strict=True):
        for gram, part in ((before, rows[:end]), (after, rows[end - SEQ_LEN : stop])):
            windows = part.unfold(0, SEQ_LEN + PRED_LEN, 1).flatten(0, 1)
            windows = windows - windows.mean(1, keepdim=True)
            centre = torch.eye(SEQ_LEN + PRED_LEN, dtype=torch.float64) - 1 / (SEQ_LEN + PRED_LEN)
            torch.testing.assert_close(centre @ gram.auto @ centre, windows.T @ windows, rtol=1e-6, atol=1e-4)


def test_the_choice_is_the_one_that_errs_least() -> None:
    made = data()
    (before, after) = gram_pairs(made)[-1]
    chosen = choose_linear_model([(before, after)])
    past, future = each("val", made)

    def error(choice: Choice) -> float:
        weight, _ = fit_lookbacks(before, choice.n_lookbacks, choice.ridge, ())
        return float((past @ weight - future).square().sum())

    others = [Choice(ridge, depth) for ridge in (1e-6, 1e-2, 0.3, 3.0) for depth in (1, 2, 3)]
    assert all(error(chosen) <= error(other) * (1 + 1e-9) for other in others)


def hourly_load(rows: int = 4000) -> pd.Series:
    """A load with a day, a week and autocorrelated noise."""
    random, t = np.random.default_rng(0), np.arange(rows)
    noise = np.convolve(random.normal(size=rows), 0.9 ** np.arange(100))[:rows]
    workday = t // 24 % 7 < 5
    day = np.sin(2 * np.pi * t / 24) + 0.4 * np.sin(4 * np.pi * t / 24 + 1)
    load = 30 + (3 + 2 * workday) * day + 5 * workday + 0.3 * noise
    return pd.Series(load, pd.date_range("2024-01-01", periods=rows, freq="h", name="date"), name="load")


@pytest.mark.parametrize(
    ("missing", "tolerance"), [([], 1e-5), ([1500], 1e-3), ([3300, 3401, 3502, 3603, 3704, 3805], 1e-2)]
)
def test_the_linear_baseline_is_least_squares_on_every_window(missing: list[int], tolerance: float) -> None:
    """Written out on the file before hours were lost: the scores are close, whether in training or in test."""
    seq_len, pred_len, load = 168, 24, hourly_load()
    frame = load.drop(load.index[missing]).to_frame()
    frame = pd.concat([frame, frame.iloc[[70, 900, 3500]]]).sort_index()
    split = [0.7, 0.1, 0.2]
    data = frame_data(
        frame, name="load", seq_len=seq_len, pred_len=pred_len, split=split, duplicates="first", features="M"
    )
    data.setup()
    train, test = int(0.7 * len(load)), len(load) - int(0.2 * len(load))
    center, scale = (getattr(data.scaler, name).item() for name in ("center", "scale"))
    scaled = (load.to_numpy() - center) / scale
    every = np.lib.stride_tricks.sliding_window_view(scaled, seq_len + pred_len)
    every = every - every[:, :seq_len].mean(1, keepdims=True)
    fitted, tested = every[: train - seq_len - pred_len + 1], every[test - seq_len :]
    weight = np.linalg.lstsq(fitted[:, :seq_len], fitted[:, seq_len:], rcond=None)[0]
    errors = tested[:, seq_len:] - tested[:, :seq_len] @ weight
    windows = data.windows["test"]
    batch = windows.gather(torch.arange(len(windows)))
    measured = batch.future[..., 0].isfinite().numpy()
    forecast = Linear(FittedBaselines.fit(data).linear)(windows, batch)
    by_hand = np.square(errors[measured]).mean()
    assert measured.sum() == errors.size - sum(pred_len for row in missing if row >= test)
    assert (forecast - batch.future).square().nanmean().item() == pytest.approx(by_hand, rel=tolerance)
