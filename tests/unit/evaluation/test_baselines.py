import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, Windows, frame_data
from forecast.data.row_ranges import RowRanges
from forecast.data.scaler import Scaler
from forecast.data.step_features import TensorRows
from forecast.evaluation.baselines import FittedBaselines, Naive, SeasonalNaive, choose_season
from forecast.evaluation.errors import TargetValues, seasonal_naive_mae, window_errors
from forecast.evaluation.measurement import new_sums
from tests.support.windows import windows_over

SEQ_LEN, PRED_LEN, ROWS, COLUMNS = 9, 5, 70, 3


def windows(first_row: int = 0, count: int | None = None, target_index: list[int] | None = None) -> Windows:
    rows = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)).cumsum(0)
    return windows_over(
        rows,
        torch.zeros(ROWS, 2),
        starts=[range(first_row, first_row + (count or ROWS - first_row - SEQ_LEN - PRED_LEN + 1))],
        seq_len=SEQ_LEN,
        pred_len=PRED_LEN,
        target_index=target_index or [0, 1, 2],
    )


def test_naive_repeats_the_last_value_of_the_targets() -> None:
    split = windows(target_index=[2])
    batch = split.gather(torch.tensor([4, 0]))
    prediction = Naive()(split, batch)
    assert prediction.shape == (2, PRED_LEN, 1)
    for row, window in enumerate((4, 0)):
        assert (prediction[row] == split.values.tensor[window + SEQ_LEN - 1, 2]).all()


@pytest.mark.parametrize("season", [1, 2, 4, 7, 12])  # shorter than the horizon, and longer than the window
def test_seasonal_naive_repeats_the_last_whole_season(season: int) -> None:
    split = windows(first_row=20)
    index = torch.tensor([7, 3])
    prediction = SeasonalNaive(season)(split, split.gather(index))
    for row, window in enumerate(index.tolist()):
        for step in range(PRED_LEN):
            t = 20 + window + SEQ_LEN + step  # the row forecast
            origin = 20 + window + SEQ_LEN
            while t >= origin:
                t -= season
            assert torch.equal(prediction[row, step], split.values[t])


def test_mase_denominators_of_several_series() -> None:
    rows = torch.randn(60, 2, generator=torch.Generator().manual_seed(1))
    first, last = np.array([0, 20, 25, 26]), np.array([20, 25, 26, 60])
    unscaled = Scaler(torch.zeros(4, 2), torch.ones(4, 2))
    found = seasonal_naive_mae(TargetValues(TensorRows(rows), [1, 0], unscaled), RowRanges(first, last), 7)
    for series, lag in ((0, 7), (1, 1), (3, 7)):  # the second has no whole season, the third no second row
        own = rows[first[series] : last[series], [1, 0]].double()
        assert found[series].tolist() == pytest.approx((own[lag:] - own[:-lag]).abs().mean(0).tolist())
    assert found[2].isnan().all()


def test_every_window_is_scored(etth1) -> None:
    """Naive on real data, against the same rule written out on the table."""
    split, sums, each = (
        etth1.windows["test"],
        new_sums(FittedBaselines.fit(etth1), etth1, torch.device("cpu")),
        [],
    )
    for index in torch.arange(len(split)).split(256):
        batch = split.gather(index)
        prediction = Naive()(split, batch)
        sums.update(prediction, batch.future, batch.series)
        each.append(window_errors(prediction, batch.future, etth1.target_scaler, batch.series))
    rows = split.values.tensor.double()
    first, last = (int(row[0]) for row in etth1.rows["test"])
    squared = [
        (rows[start : start + etth1.pred_len] - rows[start - 1]).square().mean()
        for start in range(first, last - etth1.pred_len + 1)
    ]
    assert len(split) == len(squared) == 2857
    np.testing.assert_allclose(torch.cat(each)[:, 0], torch.stack(squared), rtol=1e-5)
    assert sums.compute().scores()["mse"] == pytest.approx(torch.stack(squared).mean().item(), rel=1e-6)


def weekly(rows: int, noise: float = 0.1, **options) -> DataModule:
    """Hourly rows in which each hour of the week has its own level."""
    rng = np.random.default_rng(3)
    level = np.tile(rng.normal(size=168), rows // 168 + 1)[:rows]
    values = level + noise * rng.normal(size=rows)
    frame = pd.DataFrame({"load": values}, pd.date_range("2020-01-06", periods=rows, freq="h"))
    sizes = {"seq_len": 24, "pred_len": 12, "split": [0.6, 0.2, 0.2]}
    data = frame_data(frame, name="weekly", **{**sizes, **options})
    data.setup()
    return data


def test_the_season_is_the_one_with_the_lowest_error_on_validation_windows() -> None:
    data = weekly(168 * 6)
    assert data.candidate_seasons == [24, 168]
    values, (first, last) = data.panel.values[:, 0], (int(row[0]) for row in data.rows["val"])
    error = {}
    for season in data.candidate_seasons:
        steps = [
            (values[origin + step] - values[origin + step - season]) ** 2
            for origin in range(first, last - 12 + 1)
            for step in range(12)
        ]
        error[season] = np.mean(steps)
    assert error[168] < error[24]
    assert choose_season(data) == 168
    fitted = FittedBaselines.fit(data)
    assert (fitted.seasonal_naive_season, data.season) == (168, 24)
    rows = data.panel.values[: int(data.rows["train"][1][0]), 0]
    assert fitted.naive_mae.item() == pytest.approx(np.abs(rows[24:] - rows[:-24]).mean(), rel=1e-4)


def test_test_rows_do_not_choose_the_season() -> None:
    data, other = weekly(168 * 6), weekly(168 * 6)
    first_test = int(data.rows["test"][0][0])
    other.windows["val"].values.tensor[first_test:] = torch.randn(168 * 6 - first_test, 1) * 1e3
    assert choose_season(other) == choose_season(data) == 168


def test_without_a_whole_season_before_the_forecast_the_last_value_is_repeated() -> None:
    split = windows()
    batch = split.gather(torch.arange(3))
    assert torch.equal(SeasonalNaive(40)(split, batch), Naive()(split, batch))
