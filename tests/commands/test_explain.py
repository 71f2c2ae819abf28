from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from forecast.tools.explain import maps
from forecast.tools.explain.explanation import Picture, Section, write_page
from tests.support.commands import only, run_command, run_training, workplace

FEW = ("trainer.max_epochs=1", "+trainer.limit_train_batches=3", "logger=[]")
RUNS = {
    "probsparse": ("attention=probsparse", "cross=probsparse", "sampling=per_query", "factor=1"),
    "untrained": ("attention=full", "model=residual_informer", "model.patch_len=4", "optimizer.lr=1e-9"),
}  # fmt: skip
LAST = pd.Timestamp("2024-01-13 07:00")  # the first forecast step of the last window of 300 hours, 5 of them forecast


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workplace(tmp_path_factory.mktemp("explain"))


@pytest.fixture(scope="module")
def run(place: Path) -> Callable[[str], Path]:
    def trained(name: str) -> Path:
        if not (place / name).exists():
            assert run_training(place, *RUNS[name], *FEW, f"output_root={name}") == 0
        return only(place / name, "*")

    return trained


@pytest.fixture
def explained(place: Path, tmp_path: Path):
    """Run the command in this process, where the data lie, and give its exit status. Inputs are left out by default."""

    def go(*arguments: str) -> int | str | None:
        inputs = [] if any("importance_windows" in one for one in arguments) else ["importance_windows=0"]
        return run_command("explain", place, f"output={tmp_path}/why", *inputs, *arguments)

    return go


@pytest.mark.draws
def test_the_folder(run, explained, tmp_path: Path, capsys) -> None:
    assert explained(f"checkpoint={run('probsparse')}", "importance_windows=6", "repeats=2") == 0
    out, folder = capsys.readouterr().out, tmp_path / "why"
    pictures = sorted(folder.glob("*.png"))
    assert "importance.png" in {picture.name for picture in pictures}
    assert f"{len(pictures)} pictures" in out
    for picture in pictures:
        assert image.imread(picture)[..., :3].std() > 0.02, picture
    page = (folder / "index.html").read_text()
    assert page.count('src="data:image/png;base64,') == len(pictures) == page.count("<figcaption>")
    assert str(LAST) in page
    assert "://" not in page
    rows = pd.read_csv(folder / "numbers.csv")
    assert rows.columns.tolist() == ["layer", "kind", "number", "value"]
    assert np.isfinite(rows["value"]).all()
    assert all(number in out for number in rows["number"])
    drawn = {picture.name.split("-layer-")[0] for picture in pictures if "-layer-" in picture.name}
    assert drawn == {"encoder", "decoder", "cross"}
    importance = pd.read_csv(folder / "importance.csv")
    assert np.isfinite(importance[["mse", "mse_std"]]).all(axis=None)
    for part in ("history", "level"):
        named = set(importance.loc[importance["part"] == part, "input"])
        assert named == {"load", "temperature", "all 2 columns"}
    strongest = importance.loc[importance["mse"].idxmax()]
    assert f"{strongest['input']}, " in out
    assert f"+{strongest['mse']:.3g} ± " in out
    assert not list(tmp_path.glob(".*"))


def test_layers_that_add_nothing_are_said_first_and_not_drawn(run, explained, tmp_path: Path, capsys) -> None:
    checkpoint = run("untrained")
    capsys.readouterr()  # what the training said
    assert explained(f"checkpoint={checkpoint}", "importance_windows=4", "repeats=2") == 0
    said = "this model is the linear model alone: its attention layers are untrained"
    page = (tmp_path / "why" / "index.html").read_text()
    assert page.index(said) == page.index("<li>") + len("<li>")
    assert any(line.startswith(said) for line in capsys.readouterr().out.splitlines())
    assert {path.name for path in (tmp_path / "why").iterdir()} == {"importance.csv", "importance.png", "index.html"}
    importance = pd.read_csv(tmp_path / "why" / "importance.csv")
    mse = importance["mse"].to_numpy()
    assert (mse[importance["part"] == "calendar"] == 0).all()
    assert mse.max() > 0


def test_names_are_text_in_the_page(tmp_path: Path) -> None:
    """A title that looks like a tag, as a file's name may."""
    sections = [Section("layer", ["number"], [Picture("map", Figure(), "<i>caption</i>")])]
    write_page(tmp_path, "<script>alert(1)</script>.csv", ["a & b <c>"], sections)
    page = (tmp_path / "index.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.csv" in page
    assert "a &amp; b &lt;c&gt;" in page
    assert "&lt;i&gt;caption&lt;/i&gt;" in page


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
    (folder / "mine.txt").write_text("mine")
    assert explained(f"checkpoint={checkpoint}", "overwrite=true") == 2
    assert (folder / "mine.txt").read_text() == "mine"
    (folder / "mine.txt").unlink()
    assert explained(f"checkpoint={checkpoint}", "slot=decoder", "overwrite=true") == 0
    assert not list(folder.glob("cross*"))
