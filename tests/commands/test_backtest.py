"""Backtests of a table, of many series and of a store, with several policies of training again.

Each forecast is that of a model that knew no later row.
"""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import load
from forecast.data import DataModule
from forecast.evaluation.significance import diebold_mariano
from forecast.inference import backtest
from tests.support.commands import TINY, only, run_command, run_training
from tests.support.csv_files import write_csv
from tests.support.long_files import LENGTHS, long_frame

COVARIATES = ("data.future_covariates=[price]", "data.static_covariates=[region,size]")
LONG = (*TINY, "data=long", "data.path=long.csv", "callbacks.progress.refresh_rate=0", *COVARIATES)
FORECASTS = ["model", "naive", "seasonal_naive", "linear"]


def test_a_checkpoint_forecasts_from_every_origin(run: Path, tmp_path: Path) -> None:
    data = run.parents[1] / "load.csv"
    folder = backtest_here(tmp_path, f"checkpoint={run}", f"data.path={data}", "steps=30", "stride=4")
    frame: Any = pd.read_csv(data, parse_dates=["date"], index_col="date")
    model = load(run)
    table = pd.read_parquet(folder / "forecasts.parquet")
    origins = frame.index[270:296:4]
    assert table["forecast_start"].unique().tolist() == origins.tolist()
    for origin in origins:
        mine = table[table["forecast_start"] == origin].pivot(index="date", columns="variable", values="model")
        expected = model.predict(frame[frame.index < origin])
        np.testing.assert_allclose(mine[["load", "temperature"]], expected, rtol=1e-5)
    errors = pd.read_csv(folder / "errors_by_origin.csv")
    scale = np.where(table["variable"] == "load", *model.scaler.scale[0].tolist())
    squared = ((table["model"] - table["truth"]) / scale) ** 2
    by_origin = [squared[table["forecast_start"] == origin].mean() for origin in origins]
    np.testing.assert_allclose(errors["model_mse"], by_origin, rtol=1e-6)
    content = json.loads((folder / "backtest.json").read_text())
    assert content["model"]["mse"] == pytest.approx(errors["model_mse"].mean())
    assert content["trainings"] == []
    for picture in ("backtest.png", "forecasts.png"):
        assert (folder / picture).stat().st_size > 10_000


def backtest_here(folder: Path, *overrides: str) -> Path:
    """The same within this process; the folder of the backtest."""
    assert run_command("backtest", folder, *overrides) == 0
    return only(folder, "runs/*_backtest_*")


def read(folder: Path) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """backtest.json, the errors by origin, and the forecasts."""
    return (
        json.loads((folder / "backtest.json").read_text()),
        pd.read_csv(folder / "errors_by_origin.csv", parse_dates=["forecast_start"]),
        pd.read_parquet(folder / "forecasts.parquet"),
    )


def test_origins_in_rows_that_the_model_has_seen_are_counted(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows 180 to 290 of 300, of which 210 are training rows and 30 are validation rows; in a copy of the file."""
    file = shutil.copy(run.parents[1] / "load.csv", tmp_path / "same_rows.csv")
    given = (f"checkpoint={run}", f"data.path={file}", "stride=10")
    content, *_ = read(backtest_here(tmp_path, *given, "steps=120"))
    assert (content["origins_in_training_rows"], content["origins_in_validation_rows"]) == (3, 3)
    note = "of 12 origins, 3 in training rows (to 2024-01-09 17:00:00) and 3 in validation rows (to 2024-01-1"
    assert note in capsys.readouterr().out
    assert content["notes"][0].startswith(note)
    shutil.rmtree(tmp_path / "runs")
    content, errors, _ = read(backtest_here(tmp_path, *given, "steps=60", "intervals=adaptive"))
    assert content["intervals"]["adaptive"] != content["intervals"]["conformal"]
    assert (content["origins_in_training_rows"], content["origins_in_validation_rows"]) == (0, 0)
    assert content["notes"] == []
    assert f"verdict    {content['verdict']}" in capsys.readouterr().out
    losses = (errors[f"{name}_mse"].to_numpy() for name in ("model", content["best_baseline"]))
    tested = diebold_mariano(*losses, overlap=1, comparisons=3)
    assert content["p_value"] == pytest.approx(tested.adjusted_p_value)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on three of four series, to half of their rows."""
    folder = tmp_path_factory.mktemp("long")
    frame = long_frame()
    frame[frame["unique_id"] != "é"].to_csv(folder / "long.csv", index=False)
    given = [*LONG, "data.split=[0.5,0.25,0.25]", "trainer.max_epochs=1", "logger=[]"]
    assert run_training(folder, *given) == 0
    return only(folder, "runs/*")


def test_a_checkpoint_forecasts_many_series_from_every_origin(long_run: Path, tmp_path: Path) -> None:
    """The last 12 rows of each series, of which `é` is new to the model and a fifth one too short."""
    frame = long_frame()
    short = frame[frame["unique_id"] == "a"].tail(20).assign(unique_id="short")
    pd.concat([frame, short]).to_csv(tmp_path / "long.csv", index=False)
    given = (f"checkpoint={long_run}", "data.path=long.csv", "steps=12", "stride=3")
    with warnings.catch_warnings(action="always"):
        content, errors, forecasts = read(backtest_here(tmp_path, *given))
    assert (content["series"], content["origins"]) == (4, 12)
    assert content["trainings"] == []
    assert "future covariates (price)" in content["notes"][0]
    model = load(long_run)
    for name in LENGTHS:
        one = frame[frame["unique_id"] == name].reset_index(drop=True)
        starts = one["ds"].iloc[-12:-4:3]
        assert errors[errors["unique_id"] == name]["forecast_start"].tolist() == starts.tolist()
        for first in starts if name != "é" else starts[:1]:
            known = one.assign(y=one["y"].where(one["ds"] < first))
            mine = forecasts[(forecasts["unique_id"] == name) & (forecasts["forecast_start"] == first)]
            expected = model.predict(known, levels=[80])
            names = {"model": "y", "conformal-lo-80": "y-lo-80", "conformal-hi-80": "y-hi-80"}
            np.testing.assert_allclose(mine[[*names]], expected[[*names.values()]], rtol=1e-5)
            assert (mine[[*names]].dtypes == np.float64).all()  # a truth at a bound lies inside
            true = one.set_index("ds")["y"][mine["date"]]
            np.testing.assert_allclose(mine["truth"], true, rtol=1e-12)


def test_refits_cut_every_series_at_one_date(tmp_path: Path) -> None:
    """The series end on different dates; changing all of them from a later date moves no earlier forecast.

    At each origin a backtest knows what was known then.
    """
    changed, answers = pd.Timestamp("2024-02-25"), []
    for name in ("as_it_was", "changed"):
        folder, frame = tmp_path / name, long_frame()
        folder.mkdir()
        if name == "changed":
            frame.loc[frame["ds"] >= changed, "y"] *= -5
        frame.to_csv(folder / "long.csv", index=False)
        given = ("steps=14", "stride=2", "refit_every=12", "trainer.max_epochs=1")
        answers.append(read(backtest_here(folder, *LONG, *given)))
        assert len(list(folder.glob("runs/*/trainings/*/best.ckpt"))) == len(answers[-1][0]["trainings"]) > 2
    content, errors, before = answers[0]
    after = answers[1][2]
    assert (pd.to_datetime(errors["trained_until"]) < errors["forecast_start"]).all()
    assert set(errors["trained_until"]) == {text[:10] for text in content["trainings"]}
    firsts = errors.groupby("trained_until")["forecast_start"].min()  # of all series, the day after the training's last
    assert (firsts == pd.to_datetime(firsts.index) + pd.Timedelta(days=1)).all()
    known = before["forecast_start"] <= changed
    assert 0.2 < known.mean() < 0.8
    pd.testing.assert_frame_equal(before.loc[known, FORECASTS], after.loc[known, FORECASTS], check_exact=True)
    assert not np.allclose(before.loc[~known, "model"], after.loc[~known, "model"])


def test_later_rows_of_a_new_series_do_not_scale_it(long_run: Path, tmp_path: Path) -> None:
    """The split makes training rows of rows after the first origin."""
    answers = []
    for name in ("as_it_was", "changed"):
        folder, frame = tmp_path / name, long_frame()
        folder.mkdir()
        one = frame[frame["unique_id"] == "é"].reset_index(drop=True)
        if name == "changed":
            one.loc[30:, "y"] *= 9
        one.to_csv(folder / "long.csv", index=False)
        given = (f"checkpoint={long_run}", "data.path=long.csv", "data.split=[0.8,0.1,0.1]", "steps=35")
        answers.append(read(backtest_here(folder, *given))[2])
    before, after = (table[table["forecast_start"] <= table["date"].min() + pd.Timedelta(days=5)] for table in answers)
    assert len(before) == 2 * 5
    pd.testing.assert_frame_equal(before[FORECASTS], after[FORECASTS], check_exact=True)
    assert not answers[0].equals(answers[1])


# ---- policies of training again: never, fine-tuning, from scratch

POLICIES = ("never", "fine_tune", "scratch")
RETRAINED = (*TINY, "data=csv", "data.path=load.csv", "steps=40", "refit_every=20", "trainer.max_epochs=2")
CUT = pd.Timestamp("2024-01-12 16:00")  # the date of the second training, after 280 of 300 hours


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("policies")
    write_csv(place / "load.csv", rows=300)
    assert run_command("backtest", place, *RETRAINED, f"retrain=[{','.join(POLICIES)}]") == 0
    return only(place, "runs/*_backtest_*")


def read_forecasts(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "forecasts.parquet")


def test_all_policies_begin_with_one_training(policies: Path) -> None:
    each: Any = {name: read_forecasts(policies / name) for name in POLICIES}
    before: Any = {name: table[table["forecast_start"] < CUT] for name, table in each.items()}
    after = {name: table[table["forecast_start"] >= CUT]["model"] for name, table in each.items()}
    assert len(before["never"]) == 4 * 5 * 2
    for name in ("fine_tune", "scratch"):
        pd.testing.assert_frame_equal(before[name], before["never"], check_exact=True)
        assert not np.allclose(after[name], after["never"])
    assert not np.allclose(after["fine_tune"], after["scratch"])
    saved = sorted(str(path.relative_to(policies)) for path in policies.glob("**/best.ckpt"))
    assert saved == [
        "fine_tune/trainings/1/best.ckpt", "scratch/trainings/1/best.ckpt", "trainings/0/best.ckpt"
    ]  # fmt: skip
    tuned, anew, first = (torch.load(policies / path, weights_only=True)["LightningData"] for path in saved)
    assert torch.equal(tuned["scaler"]["scale"], first["scaler"]["scale"])
    assert not torch.equal(anew["scaler"]["scale"], first["scaler"]["scale"])


def test_the_table_of_policies_follows_from_their_backtests(policies: Path) -> None:
    content = json.loads((policies / "retraining.json").read_text())["policies"]
    assert list(content) == list(POLICIES)
    losses = {name: pd.read_csv(policies / name / "errors_by_origin.csv")["model_mse"].to_numpy() for name in POLICIES}
    for name in POLICIES:
        found = content[name]
        assert found["mse"] == pytest.approx(losses[name].mean())
        assert found["trainings"] == (1 if name == "never" else 2)
        assert found["training_seconds"] > 0
    assert "p_value" not in content["never"]
    for name in ("fine_tune", "scratch"):
        assert content[name]["change"] == pytest.approx(content[name]["mse"] / content["never"]["mse"] - 1)
        expected = diebold_mariano(losses[name], losses["never"], 1, comparisons=2).adjusted_p_value
        assert content[name]["p_value"] == pytest.approx(expected)
        assert content[name]["training_seconds"] > content["never"]["training_seconds"]


@pytest.mark.slow
def test_fine_tuning_that_does_not_lower_the_validation_error_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    seen = []

    def equal_errors(forecaster: torch.nn.Module, data: DataModule) -> float:
        seen.append((forecaster, data.last_date("val")))
        return 1.0

    monkeypatch.setattr(backtest, "validation_loss", equal_errors)
    assert run_command("backtest", tmp_path, *RETRAINED, "retrain=[never,fine_tune]") == 0
    found = only(tmp_path, "runs/*_backtest_*")
    never, tuned = (read_forecasts(found / name) for name in ("never", "fine_tune"))
    np.testing.assert_array_equal(tuned["model"], never["model"])
    kept, first = (found / place / "best.ckpt" for place in ("fine_tune/trainings/1", "trainings/0"))
    assert kept.read_bytes() == first.read_bytes()
    assert not np.allclose(tuned["linear"], never["linear"])
    assert [date for _, date in seen] == [str(CUT - pd.Timedelta(hours=1))] * 2
    assert seen[0][0] is not seen[1][0]


# ---- baselines of other libraries

OWN = """
import numpy as np

def seasonal_naive(task):
    def forecast(history, future):
        last = history.groupby("unique_id")["y"].apply(lambda y: np.resize(y.to_numpy()[-task.season:], task.pred_len))
        return np.stack(last)
    return forecast

def covariate(task):
    assert len(task.known) and task.known["y"].notna().all()
    return lambda history, future: future[task.covariates[0]]

def too_few(task):
    return lambda history, future: [0.0]

def median(task):
    return lambda history, future: future.assign(**{"0.5": 0.0})
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with baselines of the user's."""
    (tmp_path / "own_baselines.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "own_baselines"


def test_own_baselines_forecast_the_same_dates_of_each_series(long_run: Path, tmp_path: Path, own: str) -> None:
    long_frame().to_csv(tmp_path / "long.csv", index=False)
    names = [f"{own}.seasonal_naive", f"{own}.covariate"]
    given = (f"checkpoint={long_run}", "data.path=long.csv", "steps=12", "stride=3")
    content, errors, forecasts = read(backtest_here(tmp_path, *given, f"baselines=[{','.join(names)}]"))
    np.testing.assert_allclose(forecasts[names[0]], forecasts["seasonal_naive"], rtol=1e-5, atol=1e-4)
    frame = long_frame().rename(columns={"ds": "date"})
    prices = forecasts[["unique_id", "date"]].astype({"unique_id": "object"})
    prices = prices.merge(frame[["unique_id", "date", "price"]], how="left", on=["unique_id", "date"])["price"]
    np.testing.assert_allclose(forecasts[names[1]], prices, rtol=1e-5)
    assert [*content["baselines"]] == [*FORECASTS[1:], *names]
    assert {f"{name}_mse" for name in names} <= {*errors.columns}


def test_libraries_beside_the_model(run: Path, tmp_path: Path, own: str, capsys: pytest.CaptureFixture[str]) -> None:
    """LightGBM follows a day that repeats; a pretrained model forecasts what its own library does for the same rows."""
    chronos = save_tiny_chronos(tmp_path / "chronos")
    data = run.parents[1] / "load.csv"
    given = (f"checkpoint={run}", f"data.path={data}", "steps=30", "stride=4", f"chronos={tmp_path}/chronos")
    content, errors, forecasts = read(backtest_here(tmp_path, *given, "baselines=[lightgbm,chronos]"))
    scores = content["baselines"]
    assert scores["lightgbm"]["mse"] < scores["naive"]["mse"]
    assert {"lightgbm_mse", "chronos_mse"} <= {*errors.columns}
    printed = capsys.readouterr().out
    assert "lightgbm" in printed
    assert f"verdict    {content['verdict']}" in printed
    assert "corrected for 5 tests" in content["verdict"]
    frame: Any = pd.read_csv(data, parse_dates=["date"], index_col="date")
    origin = forecasts["forecast_start"].iloc[-1]
    mine = forecasts[(forecasts["forecast_start"] == origin) & (forecasts["variable"] == "load")]
    past = torch.tensor(frame["load"][frame.index < origin].to_numpy(), dtype=torch.float32)
    expected, _ = chronos.predict_quantiles([past], prediction_length=len(mine), quantile_levels=[0.1, 0.5, 0.9])
    found = mine[["chronos-lo-80", "chronos", "chronos-hi-80"]]
    np.testing.assert_allclose(found, np.asarray(expected[0]).squeeze(0), rtol=1e-4)
    is_inside = forecasts["truth"].between(forecasts["chronos-lo-80"], forecasts["chronos-hi-80"])
    scores = content["intervals"]["chronos"]
    assert scores["80"]["coverage"] == pytest.approx(is_inside.mean())
    assert f"interval   chronos: 80% covers {100 * is_inside.mean():.1f}%" in printed
    assert f"CRPS {scores['crps']:.3f} scaled" in " ".join(printed.split())
    assert "lightgbm" not in content["intervals"]


def save_tiny_chronos(folder: Path) -> Any:
    """Save a Chronos-2 with random weights; return its pipeline."""
    from chronos import Chronos2Pipeline
    from chronos.chronos2 import Chronos2Model
    from chronos.chronos2.config import Chronos2CoreConfig

    patches = {"context_length": 512, "output_patch_size": 8, "input_patch_size": 8, "input_patch_stride": 8}
    settings = {**patches, "quantiles": [n / 10 for n in range(1, 10)], "max_output_patches": 4}
    settings |= {"use_reg_token": True, "use_arcsinh": True, "time_encoding_scale": 512}
    config = Chronos2CoreConfig(
        d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, chronos_config=settings,
        architectures=["Chronos2Model"],
    )  # fmt: skip
    config.chronos_pipeline_class = "Chronos2Pipeline"
    torch.manual_seed(0)
    Chronos2Model(config).save_pretrained(folder)
    return Chronos2Pipeline.from_pretrained(folder)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("baselines=prophet", "baselines=[prophet]: not one of lightgbm, chronos, nor a function of yours"),
        ("baselines=[nowhere.f]", "baselines=[nowhere.f]: No module named 'nowhere'"),
        ("baselines=[own_baselines.f]", "module 'own_baselines' has no attribute 'f'"),
        ("baselines=[own_baselines.too_few]", "1 values in place of 5 for each of 18 series"),
        ("baselines=[own_baselines.median]", "a frame without the deciles 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9 as"),
        ("baselines=[chronos] chronos=missing", "chronos=missing: no model could be loaded"),
    ],
)
def test_a_baseline_that_cannot_forecast_is_refused(
    run: Path, tmp_path: Path, own: str, capsys: pytest.CaptureFixture[str], given: str, message: str
) -> None:
    arguments = (f"checkpoint={run}", f"data.path={run.parents[1]}/load.csv", "steps=48", *given.split())
    assert run_command("backtest", tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.glob("runs/*")]
