"""`forecast export`: the exported file gives the output of PyTorch, and runs without this package."""

import json
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch

import forecast
from forecast import api
from forecast.cli.compose import compose_config
from forecast.data.source import Domain
from forecast.data.time_features import time_features
from forecast.inference.model import TrainedModel, load
from forecast.models import ResidualInformer
from forecast.tools.export import graph, metadata
from forecast.tools.export.graph import ForecastGraph, count_allowed_exceptions, trace_forecast, write_onnx
from forecast.tools.export.metadata import load_onnx, metadata_path
from forecast.training.create_model import create_model
from tests.support.commands import LOAD, MLP, PLAIN, TINY, only, run_command, workplace
from tests.support.long_files import long_frame

MACHINE = [str(Path(each.__file__).parents[1]).encode() for each in (torch, forecast)]  # type: ignore[reportArgumentType]
"""Folders of source files, which an exported file does not name."""
EPOCH = (PLAIN, "trainer.max_epochs=1", "logger=[]")


def users_inputs(trained: TrainedModel, table: pd.DataFrame, starts: list[int]) -> dict[str, np.ndarray]:
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


def read(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "load.csv", index_col="date", parse_dates=True)


class Exported(NamedTuple):
    folder: Path  # of the data
    run: Path
    path: Path
    said: str


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = workplace(tmp_path_factory.mktemp("run"))
    given = (*EPOCH, *LOAD, *TINY, "attention=probsparse", "hydra.run.dir=run")
    assert run_command("train", folder, *given) == 0
    path = tmp_path_factory.mktemp("exported") / "a model.onnx"
    with redirect_stdout(StringIO()) as said:
        assert run_command("export", folder, "checkpoint=run", f"output={path}") == 0
    return Exported(folder, folder / "run", path, said.getvalue())


def test_an_onnx_file_gives_what_pytorch_gives(exported: Exported, monkeypatch) -> None:
    folder, run, path, said = exported
    monkeypatch.chdir(folder)
    assert sorted(p.name for p in path.parent.iterdir()) == ["a model.onnx", "a model.onnx.json"]
    trained, table = load(run), read(folder)
    assert trained.calibration is not None
    for starts in ([250], [0, 280], list(range(100, 107))):
        inputs = users_inputs(trained, table, starts)
        found = onnxruntime.InferenceSession(str(path)).run(["forecast", "quantiles"], inputs)
        forecast, quantiles = map(np.asarray, found)
        expected = ours(trained, inputs)
        assert np.abs(forecast - expected).max() < 1e-4  # of a load of 100, a deviation of 20
        assert np.abs(expected - expected.mean()).max() > 1
        scaler, calibration = trained.target_scaler, trained.calibration
        around = calibration.around((torch.tensor(expected) - scaler.center) / scaler.scale)
        by_hand = around.numpy() * scaler.scale.numpy()[..., None] + scaler.center.numpy()[..., None]
        assert np.allclose(quantiles, by_hand, atol=1e-4)
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
    program = "import sys\nsys.modules['forecast'] = None\n" + program + '\nnp.save("forecast.npy", forecast)\n'
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True, text=True)
    return np.load(folder / "forecast.npy")


def test_the_printed_program_forecasts_without_this_package(exported: Exported, tmp_path: Path) -> None:
    folder, run, _, said = exported
    assert "past (batch, 12, 2) float64" in said
    forecast = run_program(said, folder / "load.csv", tmp_path)
    table = read(folder)
    longer = table.reindex(pd.date_range(table.index[0], periods=len(table) + 5, freq="h"))
    expected = ours(load(run), users_inputs(load(run), longer, [len(table) - 12]))
    assert np.abs(forecast - expected).max() < 1e-4


def test_a_file_is_compared_with_the_data_where_they_are(exported: Exported, tmp_path, monkeypatch, capsys) -> None:
    """Missing values are completed. Without the data, or if the file differs, none is written."""
    added = [0.1, 0.0]

    def load_other(path: Path):
        run, more = load_file(path), added.pop(0)
        return lambda inputs: {name: value + more for name, value in run(inputs).items()}

    load_file = metadata.load_onnx
    monkeypatch.setattr(metadata, "load_onnx", load_other)
    monkeypatch.setattr(graph, "trace_forecast", lambda *given: None)  # the file is exported once
    monkeypatch.setattr(graph, "write_onnx", lambda program, path, about: shutil.copy(exported.path, path))
    shutil.copytree(exported.run, tmp_path / "run")
    frame = read(exported.folder)
    frame.iloc[[250, 280, 281], 0] = np.nan
    asked = ("checkpoint=run", "output=m.onnx", "check_windows=9")
    for given, status in ((("data.path=absent.csv",), 2), (("data.path=moved.csv",), 2), (("data.path=moved.csv",), 0)):
        assert not list(tmp_path.glob("m.onnx*"))
        capsys.readouterr()
        assert run_command("export", tmp_path, *asked, *given) == status
        captured = capsys.readouterr()
        assert captured.err.count("error: ") == (status == 2)
        frame.to_csv(tmp_path / "moved.csv")
    assert "9 test windows" in captured.out


@pytest.fixture(scope="module")
def series_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder with a long file, whose last 5 days have prices only, and a run on it with covariates of all roles."""
    folder = tmp_path_factory.mktemp("series")
    long_frame(future=5).to_csv(folder / "long.csv", index=False)
    roles = ("past_covariates=[temperature]", "future_covariates=[price]", "static_covariates=[region,size]")
    given = (*MLP, "data=long", "data.path=long.csv", LOAD[-1])
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
        assert np.abs(ours).max() > 0.1


# ---- the graph of attention types and variants against the network itself

ROOT = Path(__file__).parents[2]
LENGTHS = ("seq_len=168", "label_len=70", "pred_len=100", "num_landmarks=7")  # more than one chunk of 64
VARIANTS = [  # the encoder's second layer, and cross=full, are in the trained runs above
    ("attention=linear", "cross=linear", "feature_map=taylor"),
    ("attention=probsparse", "cross=probsparse"),
    ("attention=probsparse", "faithful=true", "factor=1"),
    ("attention=linear", "feature_map=relu", "model=informer_stack"),
    ("attention=nystrom", "cross=nystrom", "model.share_layers=true"),
    ("attention=gated_delta", "cross=gated_delta"),
    ("attention=sliding_window", "attention_window=9"),
    ("attention=full", "model=residual_informer", "model.linear=false"),
    ("attention=linear", "cross=linear", "model=residual_informer", "model.tokens=independent"),
    ("attention=linear", "model=patch_encoder", "model.tokens=axes", "variables=full"),
    ("attention=fastformer", "cross=linear", "model=residual_informer", "model.normalize=false"),
]

CENTER, SCALE = (1e7, -3.0, 0.5), (1.0, 20.0, 1e-3)  # the scale of the first columns
SMALL = ("model=informer", "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "model.encoder_layers=1")


def untrained_graph(*overrides: str, n_features: int = 3, n_targets: int = 3) -> tuple[ForecastGraph, dict[str, list]]:
    torch.manual_seed(0)
    config = compose_config(*SMALL, *overrides)
    network = create_model(config.model, n_features=n_features, n_targets=n_targets, n_time_features=4).eval()
    if isinstance(network, ResidualInformer):  # which says nothing before it is fitted and trained
        if network.linear is not None:
            network.linear.weight.copy_(torch.randn(config.seq_len, config.pred_len) / config.seq_len)
        network.time_embedding.set_calendar_features(())
        torch.nn.init.normal_(network.head.out.weight)
    model = SimpleNamespace(
        network=network, scaler=SimpleNamespace(domain=Domain.unlimited(n_features)),
        target_index=range(n_targets), quantiles=None, calibration=None,
    )  # fmt: skip
    graph = ForecastGraph(cast(TrainedModel, model))
    steps = {"past": config.seq_len, "past_time": config.seq_len, "future_time": config.pred_len}
    widths = {"past": n_features, "past_time": 4, "future_time": 4}
    shapes = {name: ["batch", steps[name], widths[name]] for name in steps}
    return graph, {**shapes, "center": ["batch", n_features], "scale": ["batch", n_features]}


def drawn(shapes: dict[str, list], batch: int) -> dict[str, torch.Tensor]:
    """Inputs of this many windows; the first column has level 10⁷ and deviation 1."""
    generator = torch.Generator().manual_seed(batch)
    inputs = {
        name: torch.randn(batch, *shape[1:], generator=generator, dtype=torch.float64) for name, shape in shapes.items()
    }
    for name, part in (("center", CENTER), ("scale", SCALE)):
        inputs[name] = torch.tensor(part[: shapes[name][1]], dtype=torch.float64).expand(batch, -1)
    return {**inputs, "past": inputs["past"] * inputs["scale"][:, None] + inputs["center"][:, None]}


@torch.no_grad()
def expected(graph: ForecastGraph, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Scaled by hand in NumPy's float64, and back."""
    center, scale = (inputs[name].numpy()[:, None] for name in ("center", "scale"))
    past = (inputs["past"].numpy() - center) / scale
    times = inputs["past_time"].float(), inputs["future_time"].float()
    scaled = graph.network(torch.from_numpy(past.astype("float32")), *times)
    return torch.from_numpy(scaled.numpy().astype("float64") * scale + center)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [pytest.param(variant, marks=[] if "model.linear=false" in variant else pytest.mark.long) for variant in VARIANTS],
    ids=" ".join,
)
def test_every_variant_gives_what_its_network_gives(overrides: tuple[str, ...], tmp_path) -> None:
    """Also at a level of 10⁷ , of which float32 could not say more than a whole number."""
    graph, shapes = untrained_graph(*LENGTHS, *overrides)
    program = trace_forecast(graph, shapes)
    write_onnx(program, tmp_path / "m.onnx", {"outputs": {"forecast": []}})
    assert str(ROOT).encode() not in (tmp_path / "m.onnx").read_bytes()
    assert {i.type for i in onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).get_inputs()} == {"tensor(double)"}
    run = load_onnx(tmp_path / "m.onnx")
    for batch in (1, 2, 7):
        inputs = drawn(shapes, batch)
        ours = expected(graph, inputs)
        assert ours.shape == (batch, 100, 3)
        assert ours.std(dim=1).min() > 0
        got = torch.from_numpy(run({name: values.numpy() for name, values in inputs.items()})["forecast"])
        assert got.shape == ours.shape
        assert ((got - ours) / inputs["scale"][:, None]).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("overrides", "allowed"), [(("attention=nystrom",), 0), (("attention=full", "cross=probsparse"), 2)]
)
def test_only_a_ranking_may_flip(overrides: tuple[str, ...], allowed: int) -> None:
    network = untrained_graph(*overrides)[0].network
    assert count_allowed_exceptions(network, 2785) == allowed
    assert count_allowed_exceptions(network, 999) == 0
