"""`python -m forecast.explain` on small models trained here: files, page, numbers, refusals."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import wandb
from matplotlib import image
from matplotlib.figure import Figure

from forecast.inference.model import evaluate, load
from forecast.tools.explain import maps
from forecast.tools.explain.explanation import adds_nothing, describe_layers, write_page
from forecast.tools.explain.figures import Picture
from forecast.tools.explain.importance import WindowSample
from forecast.tools.explain.maps import record_calls
from forecast.tools.explain.window import choose_window, draw_window
from tests.support.commands import answer, only, train_here, workplace
from tests.support.long_files import long_frame
from tests.support.wandb_file import WandbRun

PATCHES = ("model=residual_informer", "model.patch_len=4", "model.linear=false")
"""Without a linear model, after which a few batches of training would be worse than none."""
FEW = ("trainer.max_epochs=1", "+trainer.limit_train_batches=3", "logger=[]")
RUNS = {
    "probsparse": ("attention=probsparse", "cross=probsparse", "sampling=per_query", "factor=1"),
    "fastformer": ("attention=fastformer", "model.attention.encoder.interaction=concat", "loss=quantile"),
    "untrained": ("attention=full", *PATCHES[:2], "optimizer.lr=1e-9"),
    "joint": ("attention=nystrom", *PATCHES, "model.tokens=joint", "num_landmarks=3"),
    "axes": ("attention=full", "model=patch_encoder", *PATCHES[1:], "model.tokens=axes", "variables=gated_delta"),
}  # fmt: skip
LAST = pd.Timestamp("2024-01-13 07:00")
"""The first forecast step of the last window of 300 hours, 5 of them forecast."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workplace(tmp_path_factory.mktemp("explain"))


@pytest.fixture(scope="module")
def run(place: Path) -> Callable[[str], Path]:
    """The run folder of one of `RUNS`, trained when first asked for."""

    def trained(name: str) -> Path:
        if not (place / name).exists():
            with pytest.MonkeyPatch.context() as patch:
                assert train_here(patch, place, *RUNS[name], *FEW, f"output_root={name}") == 0
        return only(place / name, "*")

    return trained


@pytest.fixture
def explained(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command in this process, where the data lie, and give its exit status. Inputs are left out by default."""

    def go(*arguments: str) -> int | str | None:
        inputs = [] if any("importance_windows" in one for one in arguments) else ["importance_windows=0"]
        return answer(monkeypatch, "explain", place, f"output={tmp_path}/why", *inputs, *arguments)

    return go


def test_the_importance_is_that_of_the_error_of_the_test(tmp_path: Path, monkeypatch) -> None:
    given = ("features=S", "data.target=load", "data.transform=asinh", "data.lower={load:5}")
    assert train_here(monkeypatch, workplace(tmp_path), *given, "output_root=runs", *FEW) == 0
    monkeypatch.chdir(tmp_path)
    model = load(only(tmp_path, "runs/*"))
    data = model.data()
    windows = data.windows["test"]
    sample = WindowSample(data, windows, windows, most=len(windows))
    with torch.no_grad():
        found = sample.score(model.forecast_batch, sample.batch)
    scores = evaluate(model, data, progress=False)[0]["test"]
    assert found == pytest.approx(scores["mse"], rel=1e-4)


@pytest.mark.draws
@pytest.mark.parametrize(
    "name",
    ["probsparse", *(pytest.param(name, marks=pytest.mark.long) for name in ("fastformer", "joint", "axes"))],
)
def test_the_folder(name: str, run, explained, tmp_path: Path, capsys) -> None:
    assert explained(f"checkpoint={run(name)}", "importance_windows=6", "repeats=2") == 0
    out, folder = capsys.readouterr().out, tmp_path / "why"
    pictures = sorted(folder.glob("*.png"))
    assert {"window.png", "importance.png"} < {picture.name for picture in pictures}
    assert f"{len(pictures)} pictures" in out
    for picture in pictures:
        assert image.imread(picture)[..., :3].std() > 0.02, picture
    page = (folder / "index.html").read_text()
    assert page.count('src="data:image/png;base64,') == len(pictures) == page.count("<figcaption>")
    assert str(LAST) in page
    assert "://" not in page
    rows = pd.read_csv(folder / "numbers.csv", keep_default_na=False)
    assert rows.columns.tolist() == ["layer", "kind", "number", "beside", "value"]
    assert np.isfinite(rows["value"]).all()
    assert all(number in out for number in rows["number"])
    drawn = {picture.name.split("-layer-")[0] for picture in pictures if "-layer-" in picture.name}
    assert drawn == {"encoder", "variables"} if name == "axes" else {"encoder", "decoder", "cross"}
    importance = pd.read_csv(folder / "importance.csv")
    assert np.isfinite(importance[["mse", "mse_std"]]).all(axis=None)
    for part in ("history", "level"):
        named = set(importance.loc[importance["part"] == part, "input"])
        assert named == {"load", "temperature", "all 2 columns"}
    strongest = importance.loc[importance["mse"].idxmax()]
    assert f"{strongest['input']}, " in out
    assert f"+{strongest['mse']:.3g} ± " in out
    assert not list(tmp_path.glob(".*"))


@pytest.mark.draws
def test_the_output_is_logged_to_wandb(run, explained, place: Path) -> None:
    checkpoint = run("untrained")
    assert explained(f"checkpoint={checkpoint}", "importance_windows=4", "repeats=2", "wandb=offline") == 0
    wandb.teardown()  # as at the end of a process; run.finish() does not wait until the file is complete
    logged = WandbRun(only(place, "wandb/offline-run-*/*.wandb"))
    assert logged.run.job_type == "explain"
    settings = {item.key: json.loads(item.value_json) for item in logged.run.config.update}
    assert settings["seq_len"] == 12
    named = {key.split("/_type")[0] for row in logged.history for key in row if key.endswith("/_type")}
    assert named == {"importance", "pictures/importance", "pictures/window"}
    table = only(place, "wandb/offline-run-*/files/media/table/importance_*.json")
    columns = json.loads(table.read_text())["columns"]
    assert columns[:2] == ["part", "input"]


def test_layers_that_add_nothing_are_said_first_and_not_drawn(run, explained, tmp_path: Path, capsys) -> None:
    checkpoint = run("untrained")
    capsys.readouterr()  # what the training said
    assert explained(f"checkpoint={checkpoint}", "importance_windows=4", "repeats=2") == 0
    said = "this model is the linear model alone: its attention layers are untrained"
    page = (tmp_path / "why" / "index.html").read_text()
    assert page.index(said) == page.index("<li>") + len("<li>")
    assert capsys.readouterr().out.splitlines()[1].startswith(said)
    assert {path.name for path in (tmp_path / "why").iterdir()} == {
        "importance.csv", "importance.png", "index.html", "window.png"
    }  # fmt: skip
    importance = pd.read_csv(tmp_path / "why" / "importance.csv")
    mse = importance["mse"].to_numpy()
    assert (mse[importance["part"] == "calendar"] == 0).all()
    assert mse.max() > 0


def test_the_part_of_the_layers_is_said(run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    trained = load(run("untrained"))
    trained.is_untrained = False
    assert trained.network.shrinkage is not None
    trained.network.shrinkage.fill_(0.8)
    assert describe_layers(trained)[0] == "shrinkage weight of the attention layers in the forecast: 80%"
    trained.network.shrinkage.fill_(0)
    assert adds_nothing(trained)
    assert describe_layers(load(run("probsparse"))) == [
        "attention probsparse-cross-probsparse; cross-attention probsparse"
    ]


def test_windows_that_a_refit_was_trained_on_are_said(
    quantile_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    asked = (f"output={tmp_path}/why", "importance_windows=0")
    for checkpoint, said in ((quantile_run, True), (quantile_run / "checkpoints" / "best.ckpt", False)):
        capsys.readouterr()
        given = (f"checkpoint={checkpoint}", *asked, "overwrite=true")
        assert answer(monkeypatch, "explain", quantile_run.parents[1], *given) == 0
        assert ("in training rows (to" in capsys.readouterr().out) == said


def test_names_are_text_in_the_page(tmp_path: Path) -> None:
    """A title that looks like a tag, as a file's name may."""
    window = Picture("window", Figure(), "<i>caption</i>")
    write_page(tmp_path, "<script>alert(1)</script>.csv", ["a & b <c>"], window, [])
    page = (tmp_path / "index.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.csv" in page
    assert "a &amp; b &lt;c&gt;" in page
    assert "&lt;i&gt;caption&lt;/i&gt;" in page


def test_the_numbers_by_hand(run, explained, tmp_path: Path) -> None:
    """The rows that ProbSparse selects, the effect of its sample, and the uniform weight of the last day."""
    assert explained(f"checkpoint={run('probsparse')}", "slot=encoder", "window=3") == 0
    rows = pd.read_csv(tmp_path / "why" / "numbers.csv", keep_default_na=False)
    assert rows["layer"].str.startswith("encoder.layers.").all()
    of_first = rows[rows["layer"] == "encoder.layers.0.attention"]
    found = of_first.set_index(["number", "beside"])["value"]
    kept = math.ceil(math.log(12))
    assert (found["selected queries", ""], found["selected queries", "of"]) == (kept, 12)
    trained = load(run("probsparse"))
    batch = trained.data().windows["test"].gather(torch.tensor([3]))
    _, calls = record_calls(trained.network, batch.past, batch.past_time, batch.future_time)
    q, k, v, answer = (x[0] for x in (calls[0].q, calls[0].k, calls[0].v, calls[0].mixed))
    scores = q @ k.mT / 2  # heads of 4
    exact = (scores.amax(2) - scores.mean(2)).topk(kept).indices.tolist()
    is_kept = (answer - v.mean(1, keepdim=True)).abs().amax(2) > 1e-6
    overlap = [
        len({*best} & {*rows.nonzero()[:, 0].tolist()}) / kept
        for best, rows in zip(exact, is_kept, strict=True)
    ]
    assert found[f"found of the exact measure's top {kept}", ""] == pytest.approx(np.mean(overlap))  # type: ignore[reportGeneralTypeIssues]
    full = scores.softmax(2) @ v
    distance = float(((answer - full).norm(dim=(1, 2)) / full.norm(dim=(1, 2))).mean())
    assert found["relative difference of the output from softmax", ""] == pytest.approx(distance, rel=1e-4)  # type: ignore[reportGeneralTypeIssues]


def test_a_map_too_large_is_refused(run, explained, tmp_path: Path, monkeypatch, capsys) -> None:
    checkpoint = run("probsparse")
    monkeypatch.setattr(maps, "MAX_WEIGHTS", 100)
    capsys.readouterr()
    assert explained(f"checkpoint={checkpoint}") == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert "encoder, layer 0: probsparse: 2 maps of 12 × 12 positions are too large to draw" in error
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(run, explained, tmp_path: Path) -> None:
    checkpoint, folder = run("probsparse"), tmp_path / "why"
    assert explained(f"checkpoint={checkpoint}", "slot=cross") == 0
    before = (folder / "index.html").read_text()
    assert explained(f"checkpoint={checkpoint}") == 2
    assert (folder / "index.html").read_text() == before
    assert explained(f"checkpoint={checkpoint}", "slot=decoder", "overwrite=true") == 0
    assert not list(folder.glob("cross*"))
    (folder / "mine.txt").write_text("mine")
    assert explained(f"checkpoint={checkpoint}", "overwrite=true") == 2
    assert (folder / "mine.txt").read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_a_window_of_many_series(place: Path, explained, tmp_path: Path, monkeypatch, capsys) -> None:
    """A date means the first series that has such a window; the picture shows the values of this series."""
    long_frame().to_csv(place / "long.csv", index=False)
    roles = ("past_covariates=[temperature]", "future_covariates=[price]", "static_covariates=[region,size]")
    given = ("data=long", "data.path=long.csv", "attention=full", *(f"data.{role}" for role in roles))
    few = ("trainer.max_epochs=1", "logger=[]", "output_root=series")
    assert train_here(monkeypatch, place, *given, *few) == 0
    run = only(place / "series", "*")
    capsys.readouterr()
    asked = ("window=2024-02-22", "slot=cross", "importance_windows=10", "repeats=2")
    assert explained(f"checkpoint={run}", *asked) == 0
    printed = capsys.readouterr().out
    assert "Explanation of window 7 of long.csv, test, series 002" in printed
    assert "in training rows" not in printed  # a series is tested before the training of a later one ends
    assert "forecast from 2024-02-22 00:00:00 to" in (tmp_path / "why" / "index.html").read_text()
    found = pd.read_csv(tmp_path / "why" / "importance.csv")
    named = {part: inputs.tolist() for part, inputs in found.groupby("part")["input"]}
    assert named["history"] == ["y", "temperature", "all 2 columns"]
    assert (named["future covariate"], named["static"]) == (["price"], ["region", "size"])
    trained = load(run)
    data = trained.data()
    window = choose_window(data, "test", "2024-02-22")
    rows = long_frame().query("unique_id == '002'").set_index("ds").loc[window.dates, "y"]
    batch = window.batch
    output, _ = record_calls(trained.network, batch.past, batch.past_time, batch.future_time)
    figure = draw_window(trained, data, window, output).figure
    assert figure.get_suptitle() == "series 002"
    drawn = {str(line.get_label()): line.get_ydata() for line in figure.axes[0].get_lines()}
    values = np.concatenate([drawn["history"], np.asarray(drawn["truth"])[1:]])  # joined at the last one
    assert np.allclose(values.astype(float), rows, atol=1e-4)
