"""A task of fev, forecast by the model of this package, which is trained on the rows before the first window."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast

fev = pytest.importorskip(
    "fev", reason="the extra fev is not installed, whose packages exclude pinned versions"
)

from forecast.adapters.fev_model import InformerForecast, level_of, to_record  # noqa: E402

HORIZON, WINDOWS, QUANTILES = 7, 3, [0.05, 0.5, 0.9]
SMALL = {"trainer.max_epochs": 1, "model.d_model": 8, "model.n_heads": 2, "model.d_ff": 8}
OVERRIDES = [f"{key}={value}" for key, value in SMALL.items()]


def make_table(n_rows: int = 240) -> pd.DataFrame:
    """One row for each of two series, which end on different days, with a missing value and covariates."""
    random = np.random.default_rng(0)
    days, steps = pd.date_range("2024-01-01", periods=n_rows, freq="D"), np.arange(n_rows)
    rows = []
    for name, length in {"short": n_rows - 20, "long": n_rows}.items():
        columns = {
            "sold": np.sin(steps * 2 * np.pi / 7) + random.normal(0, 0.1, n_rows),
            "returned": random.normal(size=n_rows),
            "price": random.uniform(1, 2, n_rows),
            "visitors": random.normal(size=n_rows),
        }
        columns["sold"][30] = np.nan
        cells = {key: values[:length] for key, values in columns.items()}
        rows.append({"id": name, "timestamp": days[:length].to_numpy(), "region": name[0], **cells})
    return pd.DataFrame(rows)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    make_table().to_parquet(tmp_path / "task.parquet")
    return fev.Task(
        dataset_path=str(tmp_path / "task.parquet"), horizon=HORIZON, num_windows=WINDOWS, seasonality=7,
        quantile_levels=QUANTILES, target=["sold", "returned"], known_dynamic_columns=["price"],
        past_dynamic_columns=["visitors"], static_columns=["region"], eval_metric="SQL", extra_metrics=["MASE"],
    )  # fmt: skip


def test_every_window_is_forecast_by_a_model_of_the_rows_before_the_first(task: Any) -> None:
    model = InformerForecast(overrides=OVERRIDES)
    forecasts = model.fit_predict(task)
    scores = task.evaluation_summary(forecasts, model_name=str(model.model_name))
    assert scores["num_forecasts"] == WINDOWS * 2 * 2
    assert 0 < scores["SQL"] < 1.5
    assert model.training_time > 0
    (run,) = Path("runs").iterdir()
    trained = forecast.load(run)
    last = make_table()["timestamp"].map(lambda days: days[-1]).max()
    assert pd.Timestamp(trained.trained_until) == last - pd.Timedelta(days=WINDOWS * HORIZON)
    assert trained.refitted is not None


def test_a_forecast_is_that_of_the_trained_model(task: Any) -> None:
    overrides = ["label_len=7", "model=informer", *OVERRIDES]
    forecasts = InformerForecast(seq_len=28, overrides=overrides).fit_predict(task)
    assert json.loads(next(Path("runs").glob("*/metrics.json")).read_text())["seq_len"] == 28
    table = make_table().iloc[1]  # "long"; fev sorts by id
    cut = len(table["timestamp"]) - HORIZON
    names = ["timestamp", "sold", "returned", "price", "visitors"]
    rows = pd.DataFrame({name: table[name] for name in names}).assign(region=table["region"])
    parts = [
        rows.assign(id=f"long_{target}", target=rows[target]).drop(columns=["sold", "returned"])
        for target in ("sold", "returned")
    ]
    past = pd.concat([part.iloc[:cut] for part in parts])
    future = pd.concat([part.iloc[cut:].drop(columns=["target", "visitors"]) for part in parts])
    expected = forecast.load(next(Path("runs").iterdir())).predict(past, future=future, levels=[80, 90])
    for target in ("sold", "returned"):
        found, wanted = forecasts[-1][target][0], expected.loc[f"long_{target}"]
        assert found["predictions"] == pytest.approx(wanted["target"].tolist(), rel=1e-5)
        assert found["0.05"] == pytest.approx(wanted["target-lo-90"].tolist(), rel=1e-5)
        assert found["0.9"] == pytest.approx(wanted["target-hi-80"].tolist(), rel=1e-5)


def test_quantiles_are_bounds_of_intervals_or_the_median() -> None:
    assert [level_of(quantile) for quantile in (0.1, 0.35, 0.5, 0.975)] == [80, 30, 0, 95]
    rows = pd.DataFrame({"target": [1.0], "target-lo-80": [0.0], "target-hi-95": [3.0]})
    assert to_record(rows, [0.1, 0.5, 0.975]) == {
        "predictions": [1.0], "0.1": [0.0], "0.5": [1.0], "0.975": [3.0],
    }  # fmt: skip
