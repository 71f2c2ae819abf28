"""The commands on a store of many series: what they do on the long file that it was made from."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.commands import only, run_command, run_training
from tests.support.long_files import long_frame

DATA, AHEAD = ("long", "store"), 10
KEYS = ("data.id_column=shop", "data.date_column=day")
ROLES = ("data.columns=[y]", "data.past_covariates=[sky]", "data.future_covariates=[price]")
MORE = [
    ("data.path=history.{}", "future=ahead.csv"),
    ("data.path=sales.{}", "start=2024-02-10", "levels=[80]"),
    ("data.path=sales.{}", "baseline=seasonal_naive"),
]


def table() -> pd.DataFrame:
    """Four daily series with different first and last dates; their prices are known for `AHEAD` more days."""
    frame, random = long_frame(future=AHEAD), np.random.default_rng(2)
    frame["sky"] = random.choice(["sun", "rain", "snow"], len(frame))
    frame["y"] += 3 * frame["price"]
    return frame.drop(columns=["region", "size", "temperature"]).rename(
        columns={"unique_id": "shop", "ds": "day"}
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sales and their history, as long files and stores, the prices ahead, and a run on each of DATA."""
    folder, frame = tmp_path_factory.mktemp("store"), table()
    known = frame["y"].notna()
    frame.to_csv(folder / "sales.long", index=False)
    frame[known].to_csv(folder / "history.long", index=False)
    frame.loc[~known, ["shop", "day", "price"]].to_csv(folder / "ahead.csv", index=False)
    for name in ("sales", "history"):
        assert run_command("convert", folder, f"data.path={name}.long", *KEYS, "chunk=900") == 0
    for data in DATA:
        keys = KEYS if data == "long" else ()
        given = (f"data={data}", f"data.path=sales.{data}", *keys, *ROLES, f"output_root={data}")
        more = ("data.name=sales", "data.split=[0.5,0.3,0.2]", "trainer.max_epochs=1", "logger=[]")
        assert run_training(folder, *given, *more) == 0
        (folder / "runs").mkdir(exist_ok=True)
        only(folder, f"{data}/*").rename(folder / "runs" / data)
    return folder


def scores(content: dict) -> dict[str, float]:
    kept = {key: content[key] for key in ("test", "baselines", "skill")}
    return pd.json_normalize(kept).iloc[0].dropna().to_dict()


def test_training_gives_the_same_windows_and_scores(place: Path) -> None:
    long, store = (json.loads((place / f"runs/{data}" / "metrics.json").read_text()) for data in DATA)
    assert store["n_windows"] == long["n_windows"]
    assert store["inputs_used"] == long["inputs_used"]
    assert scores(store) == pytest.approx(scores(long), rel=1e-3, abs=1e-4)
    for name in ("errors_by_window", "errors_by_series"):
        one, other = (pd.read_parquet(place / f"runs/{data}" / f"{name}.parquet") for data in DATA)
        pd.testing.assert_frame_equal(one, other, rtol=0.01, atol=1e-3)
    assert len(other) == 4


@pytest.mark.parametrize("more", MORE, ids=lambda more: more[-1])
def test_forecasts_from_either(place: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    frames = []
    for data in DATA:
        given = [text.format(data) for text in more]
        output = f"output={tmp_path}/{data}.csv"
        assert run_command("predict", place, "checkpoint=runs/store", output, *given) == 0
        frames.append(pd.read_csv(tmp_path / f"{data}.csv", index_col=["shop", "day"]))
    assert len(frames[0]) >= 3 * 5
    pd.testing.assert_frame_equal(*frames, rtol=0, atol=1e-3)


def test_a_backtest_is_that_of_the_long_file(place: Path, tmp_path: Path) -> None:
    found = []
    for data in DATA:
        given = (f"checkpoint={place}/runs/store", f"data.path={place}/history.{data}", "steps=10")
        assert run_command("backtest", place, *given, f"output_root={tmp_path}/{data}") == 0
        found.append(pd.read_parquet(only(tmp_path, f"{data}/*/forecasts.parquet")))
    assert len(found[0]) == 4 * 10
    pd.testing.assert_frame_equal(*found, rtol=0.01, atol=1e-2)
