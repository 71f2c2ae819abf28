"""The commands on a store with columns of text: what they do on the file that it was made from."""

import json
from pathlib import Path

import pandas as pd
import pytest

from forecast.inference.model import load
from tests.support.commands import TINY, answer, only
from tests.support.covariate_file import COVARIATES, FUTURE, table
from tests.support.long_variants import every_nth

DATA = ("csv", "store")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with history.csv and newer.csv, their stores, ahead.csv after the history, and a run on each history."""
    folder = tmp_path_factory.mktemp("store")
    whole = table()
    whole.iloc[:-8].to_csv(folder / "history.csv")
    whole[FUTURE].iloc[-8:].to_csv(folder / "ahead.csv")
    unknown = {"weather": whole["weather"].where(whole.index < whole.index[-40], "hail")}
    whole.assign(**unknown).to_csv(folder / "newer.csv")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("history", "newer"):
            assert answer(patch, "convert", folder, f"data.path={name}.csv", "chunk=5000") == 0
        for data in DATA:
            options = (
                f"data={data}",
                f"data.path=history.{data}",
                "data.name=load",
                *COVARIATES,
                "logger=[]",
            )
            more = ("trainer.max_epochs=1", f"output_root={data}", "pictures=false")
            assert answer(patch, "train", folder, *TINY, *options, *more) == 0
            only(folder, f"{data}/*").rename(folder / f"run_{data}")
    return folder


def scores(content: dict, *, linear: bool = True) -> dict[str, float]:
    """The scores by name; those of the linear baseline, which a store selects on fewer origins, only if asked for."""
    baselines = {name: each for name, each in content["baselines"].items() if linear or name != "linear"}
    return pd.json_normalize({"test": content["test"], "baselines": baselines}).iloc[0].dropna().to_dict()


def test_training_reads_the_same_categories_windows_and_values(place: Path) -> None:
    file, store = (json.loads((place / f"run_{data}" / "metrics.json").read_text()) for data in DATA)
    assert store["n_windows"] == file["n_windows"]
    assert store["inputs_used"] == file["inputs_used"]
    assert scores(store, linear=False) == pytest.approx(scores(file, linear=False), rel=1e-3, abs=1e-4)
    models = [load(place / f"run_{data}") for data in DATA]
    assert models[0].feature_columns == models[1].feature_columns
    assert models[0].categories == models[1].categories
    assert models[0].categories["weather"] == ["rain", "snow", "sun"]


@pytest.mark.parametrize("run", every_nth(DATA, 2))
def test_evaluation_takes_either_and_names_categories_that_training_did_not_know(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, run: str
) -> None:
    found, told = [], []
    for data in DATA:
        given = (f"checkpoint=run_{run}", f"data.path=newer.{data}", f"output={run}_{data}.json")
        assert answer(monkeypatch, "evaluate", place, *given) == 0
        found.append(json.loads((place / f"{run}_{data}.json").read_text()))
        told.append([line for line in capsys.readouterr().err.splitlines() if "not among" in line])
    assert found[1]["n_windows"] == found[0]["n_windows"] > 100
    assert scores(found[1]) == pytest.approx(scores(found[0]), rel=1e-3, abs=1e-4)
    assert "column 'weather' has 'hail' in 40 of 400 rows" in told[0][0]
    assert [line.replace(".store", ".csv") for line in told[1]] == told[0]


@pytest.mark.parametrize("more", [("future=ahead.csv",), ("start=2024-01-12",)])
def test_forecasts_from_either(place: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]) -> None:
    frames = []
    for data in DATA:
        output = f"{data}_{more[0][:5]}.csv"
        given = ("checkpoint=run_store", f"data.path=history.{data}", f"output={output}", *more)
        assert answer(monkeypatch, "predict", place, *given) == 0
        frames.append(pd.read_csv(place / output, index_col="date"))
    pd.testing.assert_frame_equal(*frames, rtol=0, atol=1e-3)


def test_the_categories_of_the_horizon_change_the_forecast(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = pd.read_csv(place / "ahead.csv")
    ahead.assign(promo=ahead["promo"].replace({"none": "sale", "sale": "none"})).to_csv(
        place / "other.csv", index=False
    )
    found = []
    for name in ("ahead", "other"):
        given = ("checkpoint=run_store", f"future={name}.csv", f"output=with_{name}.csv")
        assert answer(monkeypatch, "predict", place, *given) == 0
        found.append(pd.read_csv(place / f"with_{name}.csv")["load"])
    assert (found[0] - found[1]).abs().min() > 1e-3


def test_a_backtest_is_that_of_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for data in DATA:
        folder = f"{place}/back_{data}"
        given = (
            f"checkpoint={place}/run_store",
            f"data.path={place}/newer.{data}",
            "steps=40",
            f"output_root={folder}",
        )
        assert answer(monkeypatch, "backtest", place, *given) == 0
        found.append(pd.read_parquet(only(place, f"back_{data}/*/forecasts.parquet")))
    assert len(found[0]) == 8 * 5
    pd.testing.assert_frame_equal(*found, rtol=0.01, atol=1e-2)


@pytest.mark.usefixtures("empty_picture_of_check")
def test_a_check_suggests_text_as_covariates(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for data in DATA:
        given = (f"data={data}", f"data.path=history.{data}", f"output={data}.png", "data.drop=[is_open]")
        assert answer(monkeypatch, "check", place, *given) == 0
        found.append(json.loads((place / f"{data}.json").read_text()))
    assert found[1]["suggested"] == found[0]["suggested"]
    assert found[1]["suggested"]["data.past_covariates"] == ["weather", "promo"]
