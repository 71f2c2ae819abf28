"""`fit` and `predict` with DataFrames of other libraries than pandas."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast import fit

polars = pytest.importorskip("polars")

TINY = [
    "model.d_hidden=8", "trainer.max_epochs=1", "windows_per_epoch=64", "logger=[]",
    "pictures=false", "data.split=[0.6,0.2,0.2]",
]  # fmt: skip
SETTINGS: dict[str, Any] = {
    "target": "sold", "date_column": "date", "model": "mlp", "seq_len": 12, "label_len": 6, "pred_len": 5,
    "future_covariates": ["price"], "overrides": TINY,
}  # fmt: skip


def sales() -> pd.DataFrame:
    """Two series of 150 days, with a price that is known five days ahead."""
    random, dates = np.random.default_rng(0), pd.date_range("2021-01-01", periods=155, freq="D")
    sold, price = random.normal(size=(2, 2, 155))
    sold[:, 150:] = np.nan
    columns = ("shop", "date", "sold", "price")
    parts = [dict(zip(columns, (shop, dates, sold[n], price[n]), strict=True)) for n, shop in enumerate("ab")]
    return pd.concat(map(pd.DataFrame, parts), ignore_index=True)


def test_forecasts_are_frames_of_the_same_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = polars.from_pandas(sales())
    model = fit(frame, **SETTINGS, id_column="shop")
    expected, found = model.predict(sales(), levels=[80]), model.predict(frame, levels=[80])
    assert type(found) is type(frame)
    table = found.to_pandas()
    assert table.columns.tolist() == ["shop", "date", "sold", "sold-lo-80", "sold-hi-80"]
    assert len(table) == 10
    np.testing.assert_array_equal(table["shop"], expected.index)
    np.testing.assert_array_equal(
        table["date"].to_numpy("datetime64[s]"), expected["date"].to_numpy("datetime64[s]")
    )
    np.testing.assert_array_equal(table[["sold", "sold-lo-80"]], expected[["sold", "sold-lo-80"]])
    assert model.evaluate(frame)["test"] == model.evaluate(sales())["test"]


def test_a_table_has_its_dates_in_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = sales()[:155].drop(columns="shop")
    history, future = table[:150], table[150:].drop(columns="sold")
    model = fit(polars.from_pandas(history), **SETTINGS)
    found = model.predict(polars.from_pandas(history), future=polars.from_pandas(future))
    expected = model.predict(history.set_index("date"), future=future.set_index("date"))
    assert found.columns == ["date", "sold"]
    np.testing.assert_array_equal(found["sold"], expected["sold"])
    assert found["date"].to_list() == [date.to_pydatetime() for date in expected.index]
