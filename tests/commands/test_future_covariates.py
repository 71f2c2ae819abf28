"""Future covariates that are forecasts themselves, or known for some steps only, in every command."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast
from tests.support.commands import TINY, only, run_command

ROWS, KNOWN, PRED_LEN = 300, 2, 5
OPTIONS = (
    "data=csv", "data.columns=[load]", "data.future_covariates=[temperature]",
    "data.as_of={temperature: told}", f"data.known_steps={KNOWN}", "logger=[]", "trainer.max_epochs=1",
    "callbacks.progress.refresh_rate=0", "attention=full",
)  # fmt: skip
START = 290
"""Row of the first forecast step, within the test rows."""


def table() -> pd.DataFrame:
    """A load that follows the temperature of the same hour, which is forecast with an error."""
    random = np.random.default_rng(0)
    temperature = 10 + random.normal(size=ROWS).cumsum() / 5
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    noise, error = random.normal(size=(2, ROWS))
    load = 100 - 3 * temperature + noise
    return pd.DataFrame({"load": load, "temperature": temperature, "told": temperature + error}, dates)


def changed(column: str, rows: slice) -> pd.DataFrame:
    frame = table()
    frame.iloc[rows, frame.columns.get_loc(column)] += 40.0
    return frame


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with table.csv and a run trained on it."""
    folder = tmp_path_factory.mktemp("known")
    table().to_csv(folder / "table.csv")
    given = (*TINY, *OPTIONS, "data.path=table.csv", "pictures=false", "hydra.run.dir=run")
    assert run_command("train", folder, *given) == 0
    return folder


@pytest.fixture
def model(place: Path, monkeypatch: pytest.MonkeyPatch) -> forecast.Model:
    monkeypatch.chdir(place)
    return forecast.load("run")


@pytest.mark.parametrize("horizon", [PRED_LEN, 3 * PRED_LEN - 1])
def test_forecasts_read_what_was_known_at_their_origin(model: forecast.Model, horizon: int) -> None:
    """Beyond pred_len too, where steps of the first horizon are in the past of the second one."""
    start, history = table().index[START - 8], START - 8

    def found(frame: pd.DataFrame) -> np.ndarray:
        return model.predict(frame, start=start, horizon=horizon)["load"].to_numpy()

    before = found(table())
    assert len(before) == horizon
    for column, first in {"temperature": history, "told": history + KNOWN}.items():
        np.testing.assert_array_equal(found(changed(column, slice(first, None))), before, err_msg=column)
    for column, row in {"temperature": history - 1, "told": history + KNOWN - 1}.items():
        assert (found(changed(column, slice(row, row + 1))) != before).any(), column


@pytest.mark.parametrize("command", ["backtest", "evaluate"])
def test_past_forecasts_read_no_measured_future(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last window, whose horizon ends the table."""
    monkeypatch.chdir(place)
    after = slice(ROWS - PRED_LEN, None)
    found = []
    for name, frame in enumerate((table(), changed("temperature", after), changed("told", after))):
        folder = place / command / str(name)
        folder.mkdir(parents=True)
        frame.to_csv(folder / "other.csv")
        given = ["checkpoint=run", f"data.path={folder}/other.csv"]
        if command == "evaluate":
            given += [f"output={folder}/scores.json", "data.split=[0.7,0.1,0.2]"]
        else:
            given += [f"output_root={folder}", "steps=5"]
        assert run_command(command, place, *given) == 0
        pattern = "scores.json" if command == "evaluate" else "*/forecasts.parquet"
        found.append(only(folder, pattern).read_bytes())
    assert found[0] == found[1]
    assert found[0] != found[2]
