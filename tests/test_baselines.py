import numpy as np
import pytest
import torch

from forecast.baselines import (
    FittedBaselines,
    Linear,
    Naive,
    SeasonalNaive,
    score,
    seasonal_naive_mae,
)
from forecast.data import Windows
from forecast.errors import ConfigError

SEQ_LEN, PRED_LEN, ROWS, COLUMNS = 9, 5, 70, 3


def windows(first_row: int = 0, count: int | None = None, target_index: list[int] | None = None) -> Windows:
    rows = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)).cumsum(0)
    return Windows(
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
        assert (prediction[row] == split.values[window + SEQ_LEN - 1, 2]).all()


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


def test_seasonal_naive_of_one_step_is_naive() -> None:
    split = windows()
    batch = split.gather(torch.arange(5))
    assert torch.equal(SeasonalNaive(1)(split, batch), Naive()(split, batch))


def test_a_season_longer_than_the_history_is_refused() -> None:
    split = windows()
    with pytest.raises(ConfigError, match=r"data\.season=40 reaches back"):
        SeasonalNaive(40)(split, split.gather(torch.arange(3)))
    with pytest.raises(ConfigError, match=r"data\.season=70"):
        seasonal_naive_mae(split.values, 70)


def test_linear_is_least_squares_over_every_training_window() -> None:
    split = windows(first_row=3, count=40, target_index=[0, 2])
    batch = split.gather(torch.arange(40))
    past = batch.past[..., [0, 2]].double()
    mean = past.mean(1, keepdim=True)
    x = (past - mean).transpose(1, 2).flatten(0, 1).numpy()  # (windows · targets, seq_len)
    y = (batch.future.double() - mean).transpose(1, 2).flatten(0, 1).numpy()
    weight = np.linalg.lstsq(x, y, rcond=None)[0]
    expected = (x @ weight).reshape(40, 2, PRED_LEN).transpose(0, 2, 1) + mean.numpy()
    np.testing.assert_allclose(Linear.fit(split, ridge=1e-10)(split, batch), expected, atol=2e-4)


def test_linear_does_not_depend_on_the_level_of_the_data() -> None:
    split = windows()
    raised = windows()
    raised.values += 1e4
    index = torch.arange(20)
    low, high = (Linear.fit(w)(w, w.gather(index)) for w in (split, raised))
    np.testing.assert_allclose(
        high - 1e4, low, atol=0.02
    )  # float32 holds three digits behind the point there
    np.testing.assert_allclose(Linear.fit(raised).weight, Linear.fit(split).weight, atol=1e-3)


def test_linear_answers_flat_data_with_its_level() -> None:
    flat = windows()
    flat.values.fill_(3.0)
    batch = flat.gather(torch.arange(4))
    assert torch.allclose(Linear.fit(flat)(flat, batch), torch.tensor(3.0))


def test_mase_denominator() -> None:
    rows = torch.tensor([[0.0], [1.0], [5.0], [2.0]])
    assert seasonal_naive_mae(rows, 2).item() == pytest.approx((5 + 1) / 2)


def test_every_window_is_scored(etth1) -> None:
    """Naive on real data, against the same rule written out on the table."""
    errors, each = score(Naive(), etth1, FittedBaselines.fit(etth1).new_errors(etth1))
    rows = etth1.windows["test"].values.double()
    last = etth1.rows["test"]
    squared = []
    for start in range(last.start, last.stop - etth1.pred_len + 1):
        squared.append((rows[start : start + etth1.pred_len] - rows[start - 1]).square().mean())
    assert len(each) == len(squared) == 2857
    np.testing.assert_allclose(each[:, 0], torch.stack(squared), rtol=1e-5)
    assert errors.scores()["mse"] == pytest.approx(torch.stack(squared).mean().item(), rel=1e-6)
