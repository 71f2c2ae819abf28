"""Names that carry script, formulas or markup go through every command, and are text wherever they are shown."""

from pathlib import Path

import pandas as pd
import pytest

from tests.support.commands import answer, only, train_here
from tests.support.csv_files import write_csv
from tests.support.synthetic_runs import configuration, make_run

COLUMNS = [
    "<script>window.attacked=1</script>", '"><img src=x onerror="window.attacked=1">', "javascript:window.attacked=1",
    "<b>bold</b><br>&lt;i&gt;", "$\\frac{1}{$", "$x^$", "=cmd|' /C calc'!A0", "température, °C",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run trained on columns of these names."""
    folder = tmp_path_factory.mktemp("names")
    write_csv(folder / "load.csv", rows=220)
    frame = pd.read_csv(folder / "load.csv", index_col="date")
    for number, name in enumerate(COLUMNS):
        frame[name] = frame["load"] + number
    frame.to_csv(folder / "load.csv")
    with pytest.MonkeyPatch.context() as patch:
        assert train_here(patch, folder, "trainer.max_epochs=1", "logger=[]", "attention=linear") == 0
    return folder


@pytest.mark.long
def test_every_command_takes_them(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = only(place, "runs/*")
    checkpoint = f"checkpoint={run}"
    assert answer(monkeypatch, "predict", place, checkpoint, f"output={tmp_path}/next.csv") == 0
    assert set(COLUMNS) <= set(pd.read_csv(tmp_path / "next.csv").columns)
    assert answer(monkeypatch, "check", place, "data.path=load.csv", f"output={tmp_path}/check.png") == 0
    assert answer(monkeypatch, "explain", place, checkpoint, f"output={tmp_path}/why") == 0
    assert {path.name for path in run.glob("*.png")} == {"forecasts.png", "error_by_step.png"}


def test_no_name_is_a_formula_in_the_table_of_a_comparison(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What others called their runs is shown as text in a spreadsheet; numbers stay numbers."""
    for number, name in enumerate(("=1+1", "@x", "-2", "plain")):
        config = configuration("attention=full")
        config["model"]["attention"]["name"] = name
        make_run(tmp_path / "runs" / f"run{name}", config, mse=0.5 + number, attention=name)
    assert answer(monkeypatch, "compare", tmp_path, "runs=[runs]") == 0
    table = pd.read_csv(tmp_path / "comparison.csv")
    assert {"'=1+1", "'@x", "'-2", "plain"} <= set(table["name"])
    assert table["skill"].dtype == float
