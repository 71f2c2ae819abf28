"""`python -m forecast.export`: the exported file gives the output of PyTorch, and runs without this package."""

import json
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch

import forecast
from forecast import api
from forecast.data.time_features import time_features
from forecast.inference.model import TrainedModel, load
from forecast.tools.export import metadata
from forecast.tools.export.metadata import metadata_path
from tests.support.commands import LOAD, MLP, PLAIN, TINY, only, run_command, workplace
from tests.support.long_files import long_frame

MACHINE = [str(Path(each.__file__).parents[1]).encode() for each in (torch, forecast)]  # type: ignore[reportArgumentType]
"""Folders of source files, which an exported file does not name."""
EPOCH = (PLAIN, "trainer.max_epochs=1", "logger=[]")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    """Train once with these overrides; give the folder and the run's."""
    made: dict[tuple[str, ...], tuple[Path, Path]] = {}

    def run(*overrides: str) -> tuple[Path, Path]:
        if overrides not in made:
            folder = workplace(tmp_path_factory.mktemp("run"))
            assert run_command("train", folder, *EPOCH, *LOAD, *overrides) == 0
            made[overrides] = folder, only(folder, "runs/*")
        return made[overrides]

    return run


def users_inputs(trained: TrainedModel, table: pd.DataFrame, starts: list[int]) -> dict[str, np.ndarray]:
    """Raw rows, the calendar's features and the scale of some windows, as a user would cut them."""
    seq_len, pred_len = trained.seq_len, trained.pred_len
    time = time_features(pd.DatetimeIndex(table.index), "h")
    rows = table.to_numpy("float64")
    return {
        "past": np.stack([rows[s : s + seq_len] for s in starts]),
        "past_time": np.stack([time[s : s + seq_len] for s in starts]),
        "future_time": np.stack([time[s + seq_len : s + seq_len + pred_len] for s in starts]),
        "center": np.repeat(trained.scaler.center.numpy(), len(starts), axis=0),
        "scale": np.repeat(trained.scaler.scale.numpy(), len(starts), axis=0),
    }


@torch.no_grad()
def ours(trained: TrainedModel, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Scale, run the network, unscale: what training and testing do."""
    past = trained.scaler.transform(torch.from_numpy(inputs["past"]), series=0).float()
    times = (torch.from_numpy(inputs[name]).float() for name in ("past_time", "future_time"))
    series = torch.zeros(len(past), dtype=torch.long)
    return trained.target_scaler.inverse(trained.network(past, *times), series).numpy()


def run_onnx(path: Path, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The forecast and the quantiles."""
    forecast, quantiles = onnxruntime.InferenceSession(str(path)).run(["forecast", "quantiles"], inputs)
    return np.asarray(forecast), np.asarray(quantiles)


def read(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "load.csv", index_col="date", parse_dates=True)


class Exported(NamedTuple):
    folder: Path  # of the data
    run: Path
    path: Path
    said: str


@pytest.fixture(scope="module")
def exported(runs, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A run with ProbSparse as an ONNX file, and what the export printed."""
    folder, run = runs(*TINY, "attention=probsparse")
    path = tmp_path_factory.mktemp("exported") / "a model.onnx"
    with redirect_stdout(StringIO()) as said:
        assert run_command("export", folder, f"checkpoint={run}", f"output={path}") == 0
    return Exported(folder, run, path, said.getvalue())


def test_an_onnx_file_gives_what_pytorch_gives(exported: Exported, monkeypatch) -> None:
    folder, run, path, said = exported
    monkeypatch.chdir(folder)
    assert sorted(p.name for p in path.parent.iterdir()) == ["a model.onnx", "a model.onnx.json"]
    trained, table = load(run), read(folder)
    assert trained.calibration is not None
    for starts in ([250], [0, 280], list(range(100, 107))):
        inputs = users_inputs(trained, table, starts)
        forecast, quantiles = run_onnx(path, inputs)
        expected = ours(trained, inputs)
        assert np.abs(forecast - expected).max() < 1e-4  # of a load of 100, a deviation of 20
        assert np.abs(expected - expected.mean()).max() > 1
        offsets = trained.calibration.offsets.numpy()[:, None]  # (quantiles, 1, steps, n_targets)
        assert np.allclose(
            quantiles,
            np.moveaxis(expected + offsets * trained.target_scaler.scale[0].numpy(), 0, -1),
            atol=1e-4,
        )
        assert (np.diff(quantiles) >= 0).all()
    model = onnx.load(path)
    assert not [place for place in MACHINE if place in path.read_bytes()]
    assert [(o.domain, o.version) for o in model.opset_import if o.domain == ""] == [("", 18)]
    about = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    beside = json.loads(metadata_path(path).read_text())
    assert beside["series"] == {"": {name: inputs[name][0].tolist() for name in ("center", "scale")}}
    assert beside["checked"]["windows"] == len(trained.data().windows["test"])
    assert beside["checked"]["largest_difference"] < 1e-5
    assert beside["checked"]["windows_beyond_tolerance"] == 0
    assert f"{beside['checked']['windows']} test windows" in said
    assert {key: beside[key] for key in about} == about
    assert about["feature_columns"] == about["target_columns"] == ["load", "temperature"]
    assert (about["freq"], about["seq_len"], about["pred_len"]) == ("h", 12, 5)
    assert [feature["name"] for feature in about["time_features"]][:2] == ["hour", "day of week"]


def run_program(said: str, data: Path, folder: Path) -> np.ndarray:
    """The forecast of the printed program on a file, in a process that cannot import this package."""
    program = said[said.index("import json") :].replace("my.csv", str(data))
    program = (
        "import sys\nsys.modules['forecast'] = None\n" + program + '\nnp.save("forecast.npy", forecast)\n'
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True, text=True)
    return np.load(folder / "forecast.npy")


def test_the_printed_program_forecasts_without_this_package(exported: Exported, tmp_path: Path) -> None:
    """As PyTorch does, the step after the file."""
    folder, run, _, said = exported
    assert "past (batch, 12, 2) float64" in said
    forecast = run_program(said, folder / "load.csv", tmp_path)
    table = read(folder)
    longer = table.reindex(pd.date_range(table.index[0], periods=len(table) + 5, freq="h"))
    expected = ours(load(run), users_inputs(load(run), longer, [len(table) - 12]))
    assert np.abs(forecast - expected).max() < 1e-4


def test_a_file_is_compared_with_the_data_where_they_are(runs, tmp_path: Path, capsys) -> None:
    """Without them no file is written."""
    folder, run = runs(*MLP)
    asked = (f"checkpoint={run}", f"output={tmp_path}/m.onnx", "check_windows=9")
    moved = (folder / "load.csv").rename(folder / "moved.csv")
    capsys.readouterr()  # what the training said
    try:
        assert run_command("export", folder, *asked) == 2
        assert capsys.readouterr().err.count("error: ") == 1
        assert not list(tmp_path.iterdir())
        assert run_command("export", folder, *asked, "data.path=moved.csv") == 0
    finally:
        moved.rename(folder / "load.csv")
    assert "9 test windows" in capsys.readouterr().out


def test_a_file_that_differs_is_not_written(runs, tmp_path: Path, monkeypatch, capsys) -> None:
    folder, run = runs(*MLP)
    load_file = metadata.load_onnx

    def load_other(path: Path):
        run = load_file(path)
        return lambda inputs: {name: value + 0.1 for name, value in run(inputs).items()}

    monkeypatch.setattr(metadata, "load_onnx", load_other)
    asked = (f"checkpoint={run}", f"output={tmp_path / 'm.onnx'}", "check_windows=3")
    assert run_command("export", folder, *asked) == 2
    assert capsys.readouterr().err.count("error: ") == 1
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def series_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder with a long file, whose last 5 days have prices only, and a run on it with covariates of all roles."""
    folder = tmp_path_factory.mktemp("series")
    long_frame(future=5).to_csv(folder / "long.csv", index=False)
    roles = ("past_covariates=[temperature]", "future_covariates=[price]", "static_covariates=[region,size]")
    given = (*TINY, "attention=full", "data=long", "data.path=long.csv", LOAD[-1])
    assert run_command("train", folder, *EPOCH, *given, *(f"data.{role}" for role in roles)) == 0
    return folder, only(folder, "runs/*")


def test_many_series_with_covariates(series_run, tmp_path: Path, monkeypatch, capsys) -> None:
    folder, run = series_run
    path = tmp_path / "m.onnx"
    capsys.readouterr()
    assert run_command("export", folder, f"checkpoint={run}", f"output={path}") == 0
    said = capsys.readouterr().out
    about = json.loads(metadata_path(path).read_text())
    assert about["inputs"] == {
        "past": ["batch", 12, 2], "past_time": ["batch", 12, 3], "future_time": ["batch", 5, 3],
        "center": ["batch", 3], "scale": ["batch", 3], "future_covariates": ["batch", 17, 1],
        "static": ["batch", 3],
    }  # fmt: skip
    assert about["scaled_columns"] == ["y", "temperature", "price"]
    assert list(about["series"]) == ["a", "002", "c d", "é"]
    frame = long_frame(future=5)
    rows = frame[frame["unique_id"] == "002"][about["scaled_columns"]][: int(0.7 * 55)]
    assert about["series"]["002"]["center"] == pytest.approx(rows.mean().tolist())
    assert about["series"]["002"]["scale"] == pytest.approx(rows.std(ddof=0).tolist())
    assert about["checked"]["series"] == 4
    assert about["checked"]["largest_difference"] < 1e-5
    monkeypatch.chdir(folder)
    expected = api.load(run).predict()
    for name in ("a", "002"):
        chosen = said.replace("series = 'a'", f"series = {name!r}")
        forecast = run_program(chosen, folder / "long.csv", tmp_path)
        ours = expected.loc[name, "y"].to_numpy()
        assert forecast.shape == (1, 5, 1)
        assert np.abs(forecast[0, :, 0] - ours).max() < 1e-4
        assert np.abs(ours).max() > 1
