"""`scripts/reproduce`: its tables, what it does with finished, missing and failed cells, and the pages."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments import command, page
from experiments.cells import TRAINING, Cell, make_cell
from experiments.run import CellFailed, Context, run_missing
from experiments.store import Row, Store
from experiments.training import scale_as_published
from forecast.cli.compose import compose_config
from forecast.cli.overrides import quote
from tests.support.long_variants import every_nth

ROOT = Path(__file__).parents[2]
MACHINE = {"device": "a CPU", "threads": 1}
TINY = (
    "model=residual_informer", "data=sample", "seq_len=48", "pred_len=24", "attention=full", "model.d_model=8",
    "trainer.max_epochs=1", "data.windows_per_epoch=64", "data.eval_stride=200",
)  # fmt: skip


def make(name: str, overrides: tuple[str, ...] = TINY) -> Cell:
    return replace(make_cell("load", "sample", 24, "full", 1), name=name, overrides=overrides)


def test_names_are_unique_and_a_later_override_replaces_an_earlier_one() -> None:
    for cells in TRAINING.values():
        assert len({cell.name for cell in cells}) == len(cells)
        for cell in cells:
            keys = [override.partition("=")[0] for override in cell.overrides]
            assert len(set(keys)) == len(keys), cell.name
    cell = make_cell("windows", "load", 168, "linear", 1, "seq_len=336")
    assert cell.name == "load/seq_len=336/168/linear/s1"
    assert "seq_len=336" in cell.overrides
    assert "seq_len=504" not in cell.overrides


@pytest.mark.parametrize("table", every_nth(sorted(TRAINING), 3))
def test_overrides_are_known(table: str) -> None:
    for cell in TRAINING[table][:: max(1, len(TRAINING[table]) // 3)]:
        compose_config(*(quote(override, sweep=False) for override in cell.overrides))


def test_only_missing_cells_run_and_failed_ones_stay_missing(tmp_path: Path) -> None:
    cells, ran = [make(name) for name in "abc"], []

    def run(cell: Cell, context: Context) -> Row:
        ran.append(cell.name)
        if cell.name == "b" and len(ran) < 4:
            raise CellFailed("no memory")
        return {"mse": 0.5}

    context = Context(tmp_path, 1, tmp_path)
    store = Store(tmp_path / "t.json", cells)
    assert run_missing(cells, store, run, context, MACHINE, jobs=1) == 1
    again = Store(tmp_path / "t.json", cells)
    assert run_missing(cells, again, run, context, MACHINE, jobs=2) == 0
    assert ran == ["a", "b", "c", "b"]
    content = json.loads((tmp_path / "t.json").read_text())
    assert list(content["cells"]) == ["a", "b", "c"]
    assert content["machines"] == [MACHINE]
    changed = Store(tmp_path / "t.json", [make("a", (*TINY, "seed=7")), *cells[1:]])
    assert len(changed.rows()) == 2  # a result with other overrides does not count


@pytest.mark.long
def test_from_the_command_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """A real run, one that fails, and a second start with nothing of the first left to do."""
    monkeypatch.setitem(TRAINING, "load", [make("good"), make("bad", (*TINY, "model.nothing=7"))])
    assert command.main(["load", "--jobs", "2"], tmp_path / "docs", tmp_path / "runs") == 1
    out, err = capsys.readouterr()
    assert "bad: failed: status 2: " in out
    assert err == "error: 1 cells failed: the same command tries them again\n"
    content = json.loads((tmp_path / "docs" / "results" / "load.json").read_text())
    (found,) = content["cells"].values()
    assert found["overrides"] == list(TINY)
    assert found["epochs"] == len(found["validation_mse_by_epoch"]) == 1
    assert 0 < found["mse"] < found["naive_mse"]
    assert re.fullmatch(r"[0-9a-f]{7,}(-dirty)?|unknown-dirty", found["commit"])
    assert str(tmp_path) not in json.dumps(content)
    assert not list((tmp_path / "runs").rglob("metrics.json"))
    assert command.main(["load", "--list"], tmp_path / "docs") == 0
    assert capsys.readouterr().out == "finished  good\nmissing   bad\n"
    assert command.main(["load", "--only", "good"], tmp_path / "docs", tmp_path / "runs") == 0
    assert "1 cells of load, 1 finished before" in capsys.readouterr().out


def test_errors_on_the_published_scale(tmp_path: Path) -> None:
    """A column of the standard deviation 2 in the first 70% of the rows, and one that −9999 makes wide."""
    columns = {"date": range(10), "a": [1.0, 5, 1, 5, 1, 5, 3, 90, 90, 90], "b": [-9999.0, *[1] * 9]}
    pd.DataFrame(columns).to_csv(tmp_path / "weather.csv", index=False)
    errors = {"variable": ["a", "b"], "model_rmse_raw": [2.0, 1.0], "linear_rmse_raw": [4.0, 1.0]}
    pd.DataFrame(errors).to_csv(tmp_path / "errors_by_variable.csv", index=False)
    found = scale_as_published(tmp_path, tmp_path / "weather.csv")
    variance = np.var([1.0, 5, 1, 5, 1, 5, 3])
    assert found["published_mse"] == pytest.approx(4 / variance / 2, rel=1e-6)
    assert found["published_linear_mse"] == pytest.approx(16 / variance / 2, rel=1e-6)


def test_the_committed_pages_and_files_are_those_of_the_committed_results() -> None:
    """After a change of tables or results: scripts/reproduce."""
    for path, content in page.make_files(ROOT / "docs").items():
        assert path.read_text() == content, path
