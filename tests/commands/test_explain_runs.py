"""`python -m forecast.explain runs=...`: the attention layers of several runs, measured on the same windows."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data.even_spacing import choose_evenly_spaced
from forecast.inference.model import load
from forecast.inference.model_data import read_model_data
from forecast.tools.explain.implied_map import implied_map
from forecast.tools.explain.record_calls import record_calls
from forecast.tools.explain.runs import LayerRow, LayerStudy
from forecast.tools.explain.runs_report import describe_layers
from forecast.tools.explain.window import choose_window
from tests.support.browser import opened
from tests.support.commands import answer, train_here, workplace

FEW = ("trainer.max_epochs=1", "+trainer.limit_train_batches=3", "logger=[]")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of full attention with two seeds, of uniform attention, and of a model that kept its linear model."""
    folder = workplace(tmp_path_factory.mktemp("explain_runs"))
    with pytest.MonkeyPatch.context() as patch:
        for settings in (("attention=full",), ("attention=full", "seed=2"), ("attention=uniform",)):
            assert train_here(patch, folder, *settings, *FEW) == 0
        linear = ("model=residual_informer", "model.patch_len=4", "optimizer.lr=1e-9", "output_root=linear")
        assert train_here(patch, folder, *linear, *FEW) == 0
    return folder


def explained(monkeypatch: pytest.MonkeyPatch, place: Path, *arguments: str) -> int | str | None:
    return answer(monkeypatch, "explain", place, *arguments)


def test_the_numbers_are_means_over_windows_and_seeds(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explained(monkeypatch, place, "runs=runs", "windows=3", f"output={tmp_path}/why") == 0
    assert {path.name for path in (tmp_path / "why").iterdir()} == {
        "index.html", "numbers.csv", "entropy.png", "from_uniform.png", "from_softmax.png", "last_season.png",
    }  # fmt: skip
    with (tmp_path / "why" / "numbers.csv").open(newline="", encoding="utf-8") as file:
        table = [one for one in csv.DictReader(file) if one["number"] == "from_uniform"]
    (row,) = (one for one in table if (one["layer"], one["variant"]) == ("encoder, layer 0", "full"))
    mean, std = float(row["mean"]), float(row["std"])
    values = measure_by_hand(place)
    assert len(values) == int(row["values"]) == 6
    assert mean == pytest.approx(np.mean(values), rel=1e-4)
    assert std == pytest.approx(np.std(values, ddof=1), rel=1e-3)
    even = [float(one["mean"]) for one in table if one["attention"] == "uniform"]
    assert len(even) == 3  # two layers of the encoder, one of the decoder
    assert max(even) < 1e-6
    saved = [pd.read_csv(folder / "attention_layers.csv") for folder in sorted(place.glob("runs/*full*"))]
    of_runs = [
        t[(t["layer"] == "encoder, layer 0") & (t["number"] == "from_uniform")]["mean"].item() for t in saved
    ]
    assert of_runs == pytest.approx([np.mean(values[:3]), np.mean(values[3:])], rel=1e-4)
    assert answer(monkeypatch, "compare", place, "runs=[runs]", f"output={tmp_path}/page.html") == 0
    assert "Attention layers" in (shown := (tmp_path / "page.html").read_text())
    assert f"{100 * mean:.1f}" in shown
    page, printed = (tmp_path / "why" / "index.html").read_text(), capsys.readouterr().out
    expected = f"{100 * mean:.1f} ± {100 * std:.1f}"
    for text in (page, printed):
        assert "Attention layers of 3 runs on 3 test windows" in text
        assert expected in text
        assert "differs most from uniform attention" in text


@torch.no_grad()
def measure_by_hand(place: Path) -> list[float]:
    """The share of the weight of the first encoder layer that differs from uniform, for each window and seed."""
    found = []
    for run in sorted(place.glob("runs/*full*")):
        trained = load(str(run))
        data = read_model_data(str(run)).read_data({})
        trained.data(data, frozenset())
        for number in choose_evenly_spaced(len(data.windows["test"]), 3).tolist():
            batch = choose_window(data, "test", number).batch
            _, calls = record_calls(trained.network, batch.past, batch.past_time, batch.future_time)
            weights = implied_map(calls[0].attention, calls[0].q, calls[0].k)
            found.append(float((weights - 1 / weights.shape[-1]).abs().sum(-1).mean()) / 2)
    return found


def test_runs_without_layers_that_matter_are_left_out(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explained(monkeypatch, place, "runs=linear", f"output={tmp_path}/why") == 2
    error = "error: runs: no run has attention layers that have a map and change its forecast; train with"
    assert capsys.readouterr().err.startswith(error)
    assert not (tmp_path / "why").exists()


def test_slot_and_layer_select(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("runs=[runs]", "windows=1", "slot=encoder", "layer=1", f"output={tmp_path}/why")
    assert explained(monkeypatch, place, *arguments) == 0
    assert set(pd.read_csv(tmp_path / "why" / "numbers.csv")["layer"]) == {"encoder, layer 1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["runs=runs", "checkpoint=latest"],
            "checkpoint= explains one model, runs= compares several: give one",
        ),
        (["runs=nowhere"], "nowhere: no such folder; give run folders, sweep folders or globs"),
        (["runs=[load.csv]"], "runs=['load.csv']: no finished run; give run folders, sweep folders or globs"),
        (
            ["runs=runs", "split=tset"],
            "split=tset: the data have no such split; choose one of train, val, test",
        ),
        (["runs=runs", "windows=0"], "windows=0: "),
    ],
)
def test_what_is_refused(
    arguments: list[str], message: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    assert explained(monkeypatch, place, *arguments, f"output={tmp_path}/why") == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {message}")
    assert not (tmp_path / "why").exists()


def test_runs_of_two_tasks_are_refused(place: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    settings = ("attention=full", "pred_len=3", "output_root=other")
    assert train_here(monkeypatch, place, *settings, *FEW) == 0
    assert explained(monkeypatch, place, "runs=[runs,other]", f"output={tmp_path}/why") == 2
    assert "error: runs: 2 tasks (load.csv, 3 steps ahead" in capsys.readouterr().err


def make_study(**uneven: float) -> LayerStudy:
    """A study with one number for each variant, in one layer."""
    rows = [
        LayerRow("encoder, layer 1", name, name, "", "from_uniform", value, 0.0, 0.0, 8)
        for name, value in uneven.items()
    ]
    return LayerStudy(rows, 24, 8, [])


def test_even_layers_are_named_first() -> None:
    sentences = describe_layers(make_study(nystrom=0.03, full=0.4, uniform=0.0))
    assert sentences == [
        "Encoder layer 1 of nystrom is even: it mixes like uniform attention (3.0% of the weight differs).",
        "Encoder layer 1 of full differs most from uniform attention: by 40% of the weight.",
    ]
    assert describe_layers(make_study(full=0.4))[0].startswith("No layer is even")


def test_the_page_in_a_browser(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both colour schemes, and no scrolling of the whole page on a phone."""
    assert explained(monkeypatch, place, "runs=runs", "windows=1", f"output={tmp_path}/why") == 0
    with opened(tmp_path / "why" / "index.html", tmp_path / "profile") as driver:
        assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
        seen = []
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            driver.refresh()
            seen.append(
                driver.execute_async_script(
                    "const done = arguments[0]; Promise.all([...document.images].map(i => i.decode())).then(() => "
                    "done([getComputedStyle(document.body).backgroundColor, document.images[0].currentSrc]))"
                )
            )
        assert [colour for colour, _ in seen] == ["rgb(255, 255, 255)", "rgb(20, 25, 31)"]
        assert seen[0][1] != seen[1][1]
        size = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": True}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
