"""Sums over the series of a hierarchy: they add up, their bounds cover them, and what has no sum is refused."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast import Model, load
from forecast.system.errors import DataError
from tests.support.commands import MLP, only, run_command

SHOPS = {"1": "north", "2": "north", "3": "south"}
DEPARTMENTS = ("bread", "milk")
IDS, ROWS, PRED_LEN = ["shop", "department"], 140, 5
SETTINGS = (
    *MLP, "data=long", "data.id_column=[shop,department]", "data.static_covariates=[region]",
    "data.lower=0", "data.split=[0.4,0.4,0.2]", "logger=[]", "callbacks.progress.refresh_rate=0", "pictures=false",
    "trainer.max_epochs=1",
)  # fmt: skip


def sales(rows: int = ROWS) -> pd.DataFrame:
    """Daily sales of departments of shops, whose noise has a part that is common to all."""
    random, common = np.random.default_rng(3), 0.7
    shared, parts = random.normal(size=rows), []
    for shop, region in SHOPS.items():
        for number, department in enumerate(DEPARTMENTS):
            noise = common * shared + (1 - common**2) ** 0.5 * random.normal(size=rows)
            parts.append(pd.DataFrame({
                "shop": shop, "department": department, "ds": pd.date_range("2024-01-01", periods=rows),
                "y": (number + 1) * (10 + 2 * noise), "region": region,
            }))  # fmt: skip
    parts[-1] = parts[-1][20:]  # begins later, so that fewer validation windows are on dates of all series
    return pd.concat(parts, ignore_index=True)


def train(folder: Path, frame: pd.DataFrame, *overrides: str) -> Path:
    frame.to_csv(folder / "sales.csv", index=False)
    with redirect_stdout(io.StringIO()):
        assert run_command("train", folder, *SETTINGS, f"data.path={folder}/sales.csv", *overrides) == 0
    return only(folder, "runs/*")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("hierarchy"), sales())


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return load(run)


def sums_by_hand(table: pd.DataFrame, *by: str) -> Any:
    series = table[table["department"].isin(DEPARTMENTS)].copy()
    series["region"] = [SHOPS[shop] for shop in series["shop"]]
    levels = {("total", "total"): series}
    levels |= {(f"total:{name}",) * 2: series[series["region"] == name] for name in ("north", "south")}
    levels |= {(shop, f"total:{name}"): series[series["shop"] == shop] for shop, name in SHOPS.items()}
    sums: list[Any] = [part.groupby([*by])["y"].sum() for part in levels.values()]
    return pd.concat(sums, keys=[*levels], names=IDS)


def test_forecasts_and_sample_paths_add_up(run: Path, tmp_path: Path, capsys) -> None:
    options = ("hierarchy=[region,shop]", "levels=[80]", "samples=300", f"data.path={run.parents[1]}/sales.csv")
    assert run_command("predict", tmp_path, f"checkpoint={run}", *options) == 0
    out = capsys.readouterr().out
    assert "total, 2 by region, 3 by shop, of 6 series; bounds from 300 sample paths, all series jointly" in out
    names = ("forecast.csv", "forecast_samples.csv")
    table, paths = (pd.read_csv(tmp_path / name, dtype={"shop": str}) for name in names)
    for found, by in ((table, ["ds"]), (paths, ["ds", "sample"])):
        expected = sums_by_hand(found, *by)
        actual = found.set_index([*IDS, *by])["y"].loc[expected.index]
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert len(table) == (1 + 2 + 3 + 6) * PRED_LEN
    total = paths[paths["shop"] == "total"].groupby("ds")["y"]
    limits = np.stack([total.quantile(0.1), total.quantile(0.9)], axis=1)
    np.testing.assert_allclose(table[["y-lo-80", "y-hi-80"]][:PRED_LEN], limits, rtol=1e-6)
    assert (tmp_path / "forecast.png").stat().st_size > 5_000


def test_bounds_of_a_sum_are_narrower_than_sums_of_bounds_and_hang_on_the_common_noise(model: Model) -> None:
    table = model.predict(hierarchy=[], levels=[80])
    width = (table["y-hi-80"] - table["y-lo-80"]).groupby(level=IDS).mean()
    ratio = width["total", "total"] / width.drop(("total", "total")).sum()
    independent = 15**0.5 / 9  # three series of spread 1, and three of spread 2
    common = (0.7**2 * 81 + (1 - 0.7**2) * 15) ** 0.5 / 9
    assert independent < ratio == pytest.approx(common, abs=0.12)


def test_true_values_are_sums_of_measured_ones(model: Model) -> None:
    frame = sales()
    frame.loc[(frame["shop"] == "2") & (frame["ds"] == "2024-05-02"), "y"] = np.nan
    table = model.predict(frame, hierarchy="region", start="2024-05-01").reset_index().set_index("ds")
    north, south = (table[table["shop"] == f"total:{name}"]["y-true"] for name in ("north", "south"))
    assert north.isna().tolist() == [False, True, False, False, False]
    expected = frame[frame["region"] == "south"].groupby("ds")["y"].sum().loc[south.index]
    np.testing.assert_allclose(south, expected)


def test_bounds_need_errors_of_all_series_on_the_same_dates(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = model.calibrations["model"]
    assert stored.ranks is not None
    pooled = replace(stored, ranks=stored.ranks.flatten(0, 1)[:, None])  # as if the dates were different
    monkeypatch.setitem(model.calibrations, "model", pooled)
    with pytest.raises(DataError, match="hold 5 horizons; series × steps × columns may be at most 52,428"):
        model.predict(hierarchy=["shop"], levels=[80])
    assert len(model.predict(hierarchy=["shop"])) == (1 + 3 + 6) * PRED_LEN


@pytest.mark.slow
def test_bounds_of_the_total_are_quantiles_of_its_past_errors_and_cover_it(tmp_path: Path) -> None:
    model, dates = load(train(tmp_path, sales(600))), pd.date_range("2024-01-01", periods=600)

    def forecast_total(first: int, stop: int, levels: list[int]) -> Any:
        starts = [str(date.date()) for date in dates[first : stop - PRED_LEN + 1]]
        tables = [model.predict(start=start, hierarchy=[], levels=levels) for start in starts]
        return pd.concat([table.loc[("total", "total")] for table in tables])

    errors = -forecast_total(240, 480, [])["y-error"]  # of the validation rows
    test = forecast_total(480, 600, [80])
    width = (test["y-hi-80"] - test["y-lo-80"]).mean()
    assert width == pytest.approx(errors.quantile(0.9) - errors.quantile(0.1), rel=0.1)
    covered = (test["y-lo-80"] <= test["y-true"]) & (test["y-true"] <= test["y-hi-80"])
    assert covered.mean() == pytest.approx(0.8, abs=0.1)


def test_what_has_no_sum_is_refused(model: Model, run: Path) -> None:
    frame, options = sales(), {"hierarchy": ["shop"], "levels": [80]}
    early = frame[(frame["shop"] != "1") | (frame["ds"] < "2024-05-10")]
    with pytest.raises(DataError, match=r"2 of 6 series end before the others .*: start=2024-05-20 leaves") as error:
        model.predict(early, **options)
    start = str(error.value).split("start=")[1].split()[0]
    with pytest.warns(UserWarning, match="2 of 6 series left out"):
        found = model.predict(early, start=start, **options)
    assert sorted({shop for shop, _ in found.index}) == ["2", "3", "total"]
    new = pd.concat([frame, frame[:ROWS].assign(shop="new")])
    with pytest.raises(DataError, match=r"1 were not trained on: train with them, or leave them out \(data.ids\)"):
        model.predict(new, **options)
    assert len(model.predict(new, hierarchy=["shop"])) == (1 + 4 + 7) * PRED_LEN
    for wrong, message in {
        "town": "'town' is neither a static covariate .* there are: region, shop, department",
        "[shop,shop]": "each once, as in",
        "[shop,region]": r"each shop has one region, which is above it: write hierarchy=\[region,shop\]",
        "[shop,department]": "'1/bread' of another sum or of a series: leave out department",
        "[] samples=50 levels=[80]": "samples=50 must be a whole number of at least 200 for bounds of sums",
    }.items():
        with redirect_stderr(io.StringIO()) as printed, redirect_stdout(io.StringIO()):
            assert run_command("predict", run.parents[1], f"checkpoint={run}", *f"hierarchy={wrong}".split()) == 2
        assert re.match(f"error: .*{message}.*\\n$", printed.getvalue()), printed.getvalue()
