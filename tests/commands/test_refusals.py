"""Forecasts and data that a trained model refuses, its warnings, and refusals of benchmarks, dashboards and exports.

`test_bad_input` has the refusals of training and of files, `test_command_refusals` those of command lines.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from forecast import Model, load
from forecast.cli.compose import compose_config
from forecast.system.errors import CheckpointError, ConfigError, DataError
from forecast.tools.benchmark import list_cases, make_work
from tests.support.long_files import long_frame
from tests.support.refusals import Refusal, describe_options

Change = Callable[[pd.DataFrame], Any]


@pytest.fixture
def model(run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """Hourly load and temperature: 12 → 5 steps, all columns from all columns."""
    monkeypatch.chdir(run.parents[1])
    return load(run)


@pytest.fixture
def quantile_model(quantile_run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """As `model`, with trained quantiles, refitted on all rows."""
    monkeypatch.chdir(quantile_run.parents[1])
    return load(quantile_run)


@pytest.fixture
def series_model(series_run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """Four daily series, 12 → 5 steps, with the price as future covariate and the region as static one."""
    monkeypatch.chdir(series_run.parents[1])
    return load(series_run)


def hourly() -> pd.DataFrame:
    return pd.read_csv("load.csv", parse_dates=["date"], index_col="date")


def option(says: str, kind: type[Exception] = ConfigError, **options: Any) -> Refusal:
    """Options with which a model forecasts no file."""
    return Refusal(describe_options(options), says, kind, lambda model: model.predict(**options))


def frame(what: str, says: str, change: Change, kind: type[Exception] = DataError) -> Refusal:
    """A changed DataFrame of load and temperature."""
    return Refusal(what, says, kind, lambda model: model.predict(change(hourly())))


def series(what: str, says: str, kind: type[Exception], change: Change, **options: Any) -> Refusal:
    """A changed DataFrame of four series."""
    return Refusal(what, says, kind, lambda model: model.predict(change(long_frame(future=10)), **options))


def known_days(days: int) -> Change:
    """Leave the prices out after this many days that follow each series."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        ends = table.loc[table["y"].notna()].groupby("unique_id")["ds"].max()
        last = table["unique_id"].map(ends) + pd.Timedelta(days=days)
        return pd.DataFrame(table[table["ds"] <= last])

    return change


def without_region(model: Model) -> None:
    long_frame().drop(columns="region").to_csv("bare.csv", index=False)
    model.read_panel({"path": "bare.csv"})


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Model], None]:
    """Forecast with a changed checkpoint, hostile.ckpt."""

    def call(model: Model) -> None:
        content = torch.load(model.path, weights_only=True)
        change(content)
        torch.save(content, "hostile.ckpt")
        try:
            load("hostile.ckpt").predict()
        finally:
            Path("hostile.ckpt").unlink()

    return call


def hostile(change: Callable[[dict[str, Any]], object]) -> Callable[[Model], None]:
    """Forecast with a changed configuration in the checkpoint."""
    return changed(lambda content: change(content["hyper_parameters"]))


def benchmark(override: str, says: str) -> Refusal:
    def call(folder: Path) -> None:
        config = compose_config(override, config_name="benchmark")
        make_work(config, list_cases(config)[0], "cpu")

    return Refusal(override, says, ConfigError, call)


FUNCTION = {"_target_": "pandas.read_pickle", "filepath_or_buffer": "evil.pickle"}
DOWNLOAD = {"_target_": "forecast.data.downloaded_data", "name": "etth1", "root": ".", "path": "precious", "url": "file://x", "hash": "0" * 64, "by_hand": None}  # fmt: skip
REFUSED = {
    "tmp_path": [
        Refusal("no run", "checkpoint=latest: no finished run is below runs: give a run folder or a file", CheckpointError, lambda folder: load("latest")),
        benchmark("attention_types=[full,sparse]", "attention_types=sparse is not one of …uniform"),
        benchmark("benchmark.widths=[60]", "benchmark.widths: 60 must be a multiple of benchmark.n_heads=8"),
    ],
    "model": [
        frame("a column left out", "the DataFrame: no column 'load'; there are 'temperature'", lambda f: f.drop(columns="load")),
        frame("every third row", "the data: one row every 3h, but …/best.ckpt was trained on one every h: give such data", lambda f: f[::3], CheckpointError),
        frame("no dates", "the DataFrame: neither the index nor one column 'date' holds dates: give the rows an index of dates (date_column)", lambda f: f.reset_index(drop=True)),
        option("start=2024-01-01 03:00 is not a date of the data, or has too little history: with seq_len=12 a forecast may begin from 2024-01-01 12:00:00 to 2024-01-13 12:00:00, every hour", start="2024-01-01 03:00"),
        option("start=soon is not a date: write it as 2018-01-31 or 2018-01-31T06:00", start="soon"),
        option("start=2024-01-10T06:00Z: leave the UTC offset out: the dates of the data have no UTC offset", start="2024-01-10T06:00Z"),
        option("intervals=quantile is not possible, because the model has no trained quantiles (it was trained with another loss than quantile, or no epoch of its training was kept): use intervals=conformal", levels=[80], intervals="quantile"),
        Refusal("another root", "data.root=other: …/best.ckpt was trained on a file of its own: give another by data.path", ConfigError, lambda model: model.data({"root": "other"})),
        Refusal("a checkpoint without the calibrations of baselines", "hostile.ckpt: it does not have the layout of a checkpoint of this version; train again", CheckpointError, changed(lambda content: content.pop("baseline_calibrations"))),
        Refusal("a checkpoint that names a function", "hostile.ckpt: the checkpoint names pandas.read_pickle, which this project does not write into checkpoints; nothing was executed. For a class of your own, set FORECAST_CONF or FORECAST_TARGETS as in training", CheckpointError, hostile(lambda c: c["model"].update(dropout=FUNCTION))),
        Refusal("a checkpoint that downloads", "precious: no such file: put it there by hand: the file itself, or its folder as data.root=FOLDER", DataError, hostile(lambda c: c["data"].update(DOWNLOAD))),
    ],
    "quantile_model": [
        option("intervals=quantile is not possible, because the model was trained for levels=[20,40,60,80,95], not for 50: use intervals=conformal", levels=[50], intervals="quantile"),
        option("intervals=quantile is not possible, because the trained quantiles reach pred_len=5 steps, not horizon=9: use intervals=conformal", levels=[60], horizon=9, intervals="quantile"),
        Refusal("no rows left to score on", "…/refit.ckpt: refitted on all rows, so no rows are left to score it on; give checkpoints/best.ckpt of the run", CheckpointError, lambda model: model.evaluate()),
    ],
    "series_model": [
        series("no prices", "series 'a': price is not known for 2024-02-10 00:00:00: this forecast needs future covariates for 5 steps after its start (a multiple of pred_len): add rows with these covariates and empty targets, or give future=FILE; a model trained with data.known_steps needs fewer", DataError, known_days(0)),
        series("too few prices for two passes", "series 'a': price is not known for 2024-02-19 00:00:00: this forecast needs future covariates for 10 steps after its start (a multiple of pred_len): add rows with these covariates and empty targets, or give future=FILE; a model trained with data.known_steps needs fewer", DataError, known_days(9), horizon=8),
        series("series left out", "1 of 4 series left out, because a column has no value before the forecast, or no row is right before it: 'a'", UserWarning, known_days(10), start="2024-02-11"),
        series("few validation rows for the horizon", "horizon=8: intervals beyond pred_len=5 are calibrated on 18 validation rows, which hold 2 such horizons: they are rough, and may leave out the forecast itself; train with a longer pred_len, or give validation more rows (data.split)", UserWarning, known_days(10), horizon=8, levels=[50]),
        Refusal("no static column", "bare.csv: no column 'region'; there are 'unique_id', 'y', 'temperature', 'price', 'size' (data.static_covariates)", DataError, without_region),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        pytest.param(place, refusal, id=f"{place}-{refusal.what}")
        for place, refusals in REFUSED.items()
        for refusal in refusals
    ],
)
def test_what_is_refused(place: str, refusal: Refusal, request: pytest.FixtureRequest) -> None:
    refusal.check(request.getfixturevalue(place))
