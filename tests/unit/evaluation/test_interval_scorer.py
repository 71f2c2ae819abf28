"""The CRPS of the model and of a baseline is the same function of the same quantiles; each method has its levels."""

from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from forecast.cli.compose import compose_config
from forecast.data import DataModule
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.intervals import IntervalScorer
from forecast.evaluation.scores import MODEL
from tests.support.csv_files import write_csv


@pytest.fixture(params=["none", "asinh"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> DataModule:
    """Two columns, hourly: 12 steps → 5, without and with a transform."""
    write_csv(tmp_path / "load.csv", rows=300)
    settings = ("data=csv", f"data.path='{tmp_path}/load.csv'", "seq_len=12", "label_len=6", "pred_len=5")
    made = instantiate(compose_config(*settings, f"data.transform={request.param}").data)
    made.prepare_data()
    made.setup()
    return made


def test_the_crps_of_equal_quantiles_is_equal(data: DataModule) -> None:
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(200, 5, 2, generator=generator)
    errors[:, :, 1] = torch.nan  # a column without calibration
    calibration = Calibration.fit(errors, [80], horizons=40)
    batch = next(iter(data.loader("val")))
    point = torch.randn(batch.future.shape, generator=generator)
    scorer = IntervalScorer(
        {MODEL: calibration, "linear": calibration}, None, [80], data, torch.device("cpu")
    )
    of_model, of_baseline = scorer.update(point, point, batch), scorer.crps("linear", point, batch)
    torch.testing.assert_close(of_baseline, of_model)
    values, truth = (data.target_scaler.error_values(each, batch.series) for each in (point, batch.future))
    error = (values - truth).abs().double()
    torch.testing.assert_close(of_model[..., 1], error[..., 1], rtol=1e-5, atol=1e-6)
    assert (of_model[..., 0] < error[..., 0]).any()


def test_trained_quantiles_are_scored_where_the_calibration_has_too_few_windows(data: DataModule) -> None:
    calibration = Calibration.fit(torch.randn(20, 5, 2), [80, 99], horizons=4)
    trained = (0.005, *(n / 10 for n in range(1, 10)), 0.995)
    with pytest.warns(UserWarning, match="99% needs"):
        scorer = IntervalScorer({MODEL: calibration}, trained, [80, 99], data, torch.device("cpu"))
    assert {method: sums.levels for method, sums in scorer.sums.items()} == {
        "conformal": (80,),
        "quantile": (80, 99),
    }
