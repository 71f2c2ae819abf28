"""`scripts/reproduce`: its tables, what it does with finished, missing and failed cells, and the page."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.checkpoints.file import load_checkpoint, save_checkpoint
from forecast.cli.compose import compose_config
from forecast.data import DataModule
from forecast.system.paths import CONF
from results import command, pictures
from results.cells import TABLES, Cell, merged
from results.options import parse
from results.page import page, save
from results.progress import run_missing
from results.published import INFORMER, PUBLISHED
from results.published_scale import published_errors
from results.result import Result
from results.runner import CellFailed, Runner
from results.settings import HORIZONS, PERCEPTRON
from results.store import Row, Store

ROOT = Path(__file__).parents[2]
MACHINE = {
    "device": "a CPU",
    "system": "Linux",
    "threads": 2,
    "versions": {"forecast": "1.2.3", "torch": "9"},
}


def row(mse: float = 0.4, **other: float) -> Row:
    scores = {"mse": mse, "mae": 0.5, "linear_mse": 0.5, "seconds": 60.0, "peak_memory_mb": 1234.5}
    return {**scores, "best_epoch": 2, **other}


def chosen(table: str, text: str) -> list[Cell]:
    return [cell for cell in TABLES[table] if text in cell.name]


def kept(folder: Path, table: str, rows: dict[str, Row]) -> Store:
    """The table's file with these cells in it, by name."""
    store = Store(folder, table)
    for cell in TABLES[table]:
        if cell.name in rows:
            store.add(cell, rows[cell.name], MACHINE)
    return store


def table_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its rule."""
    lines = text.splitlines()
    lines = lines[lines.index(heading) :]
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    end = next(
        (number for number in range(first, len(lines)) if not lines[number].startswith("|")), len(lines)
    )
    rows = [[part.strip() for part in line[1:-1].split("|")] for line in lines[first:end]]
    return [rows[0], *rows[2:]]


class FakeRun:
    """Gives `row()`, or what `results` says of a cell; remembers the cells."""

    def __init__(self, results: dict[str, Callable[[], Row]] | None = None) -> None:
        self.results, self.ran, self.is_stopped = results or {}, [], Event()

    def __call__(self, cell: Cell, /) -> Row:
        self.ran.append(cell.name)
        return self.results.get(cell.name, row)()

    def stop(self) -> None:
        self.is_stopped.set()


def fails() -> Row:
    raise CellFailed("status 2: no such file")


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_has_a_name_of_its_own(table: str) -> None:
    cells = TABLES[table]
    assert len({cell.name for cell in cells}) == len({cell.overrides for cell in cells}) == len(cells)
    assert all(cell.table == table for cell in cells)


@pytest.mark.parametrize("table", TABLES)
def test_the_overrides_are_understood(table: str) -> None:
    """A cell of each data set and one of each variant; the rest differ in horizon, attention type and seed."""
    cells = {cell.data: cell for cell in TABLES[table]} | {cell.variant: cell for cell in TABLES[table]}
    for cell in dict.fromkeys(cells.values()):
        config = compose_config(*cell.typed(Path("/sets")))
        assert (config.pred_len, config.seed) == (cell.horizon, cell.seed)
        assert config.data.name == re.sub("-(without-holidays|joint)$", "", cell.data)
        attention = config.model.attention.name.partition("-")[0]  # a slot of another type follows
        assert attention == ("mlp" if PERCEPTRON in cell.variant.split() else cell.attention)


def test_the_last_override_of_a_key_counts() -> None:
    assert merged("model=a", "seq_len=3", "model=b") == ("model=b", "seq_len=3")


def test_published_scores_are_those_of_the_experiments() -> None:
    for (data, features, horizon), (mse, mae) in INFORMER.items():
        file = CONF / "experiment" / "informer2020" / f"{data}_{features.lower()}_{horizon}.yaml"
        assert f"MSE {mse:.3f}, MAE {mae:.3f}." in file.read_text().splitlines()[1]
    assert len(INFORMER) == 20
    assert {len(scores) for sets in PUBLISHED.values() for scores in sets.values()} == {len(HORIZONS)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no table was named: choose one of ett, load"),
        (["etth1"], "there is no table etth1: choose one of ett, load"),
        (["ett", "--jobs", "0"], "argument --jobs: 0 is not a whole number of at least 1"),
        (
            ["ett", "--attention-types", "full,quick"],
            "--attention-types: ett has no quick: choose among full,probsparse,linear",
        ),
        (
            ["ablation", "--attention-types", "linear"],
            "--attention-types: ablation has no linear: choose among full",
        ),
        (["windows", "--seeds", "1,2"], "--seeds: windows has no 2: choose among 1"),
        (["ett", "--seeds", ""], "--seeds: ett has no empty name"),
        (["ett", "--only", "etth3"], "--only: no cell of ett so chosen has etth3 in its name"),
        (["ett", "--page"], "--page goes alone"),
        (["ett", "--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_mistakes_are_told_in_a_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(arguments)
    assert exit.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")


def test_cells_are_chosen() -> None:
    cells = parse(["ett", "--attention-types", "full,linear", "--seeds", "2", "--only", "etth2/96/"]).cells
    assert [cell.name for cell in cells] == ["etth2/96/full/s2", "etth2/96/linear/s2"]


def test_missing_cells_run_and_failures_do_not_stop_the_others(tmp_path: Path) -> None:
    cells = chosen("ett", "etth1/96/full")
    store, said = kept(tmp_path, "ett", {"etth1/96/full/s2": row()}), []
    run = FakeRun({"etth1/96/full/s1": fails})
    assert run_missing(cells, store, run, MACHINE, 2, said.append) == 1
    assert sorted(run.ran) == ["etth1/96/full/s1", "etth1/96/full/s3"]
    assert said[0] == "3 cells of ett, 1 finished before"
    assert any("etth1/96/full/s1: failed: status 2: no such file" in line for line in said)
    assert any(
        "etth1/96/full/s3: MSE 0.4000, MAE 0.5000, linear baseline 0.5000; 0 s" in line for line in said
    )

    again = FakeRun()
    assert run_missing(cells, Store(tmp_path, "ett"), again, MACHINE, 1, said.append) == 0
    assert again.ran == ["etth1/96/full/s1"]
    content = json.loads((tmp_path / "ett.json").read_text())
    assert list(content["cells"]) == [cell.name for cell in cells]
    assert content["machines"] == [MACHINE]
    assert content["cells"]["etth1/96/full/s1"]["overrides"] == list(cells[0].overrides)
    assert content["cells"]["etth1/96/full/s1"]["machine"] == 0
    assert "data.root=ROOT" in cells[0].overrides


def test_changed_cells_run_again(tmp_path: Path) -> None:
    (cell,) = chosen("ett", "etth1/96/full/s1")
    store = Store(tmp_path, "ett")
    store.add(replace(cell, overrides=(*cell.overrides, "model.dropout=0.1")), row(), MACHINE)
    assert Store(tmp_path, "ett").row(cell) is None
    run = FakeRun()
    assert run_missing([cell], store, run, MACHINE, 1, [].append) == 0
    assert run.ran == [cell.name]
    assert Store(tmp_path, "ett").row(cell) is not None


def test_two_commands_add_to_one_file(tmp_path: Path) -> None:
    first, second = Store(tmp_path, "ett"), Store(tmp_path, "ett")
    one, two = chosen("ett", "etth1/96/full")[:2]
    second.add(two, row(), MACHINE)
    first.add(one, row(), MACHINE)
    assert list(Store(tmp_path, "ett").content["cells"]) == [one.name, two.name]


def test_no_cell_is_lost_where_many_end_at_once(tmp_path: Path) -> None:
    cells = chosen("ett", "etth1/")
    assert run_missing(cells, Store(tmp_path, "ett"), FakeRun(), MACHINE, 8, [].append) == 0
    assert list(Store(tmp_path, "ett").content["cells"]) == [cell.name for cell in cells]


def test_an_interrupt_keeps_what_has_finished(tmp_path: Path) -> None:
    cells = chosen("ett", "etth1/96/full")
    run = FakeRun({})

    def waits() -> Row:
        assert run.is_stopped.wait(20)
        raise CellFailed("stopped")

    run.results["etth1/96/full/s2"] = waits

    def interrupted(text: str) -> None:
        if "cell 1" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_missing(cells, Store(tmp_path, "ett"), run, MACHINE, 1, interrupted)
    assert list(Store(tmp_path, "ett").content["cells"]) == ["etth1/96/full/s1"]
    assert "etth1/96/full/s3" not in run.ran


def test_the_page_by_horizon(tmp_path: Path) -> None:
    rows = {f"etth1/{h}/full/s{s}": row(0.3 + s / 100) for h in HORIZONS for s in (1, 2, 3)}
    rows |= {
        "etth1/96/linear/s1": row(0.31),
        "etth1/96/linear/s2": row(0.313),
        "etth1/192/nystrom/s1": row(0.0456),
    }
    kept(tmp_path, "ett", rows)
    header, *body = table_of(page(tmp_path), "### etth1")
    assert header == ["MSE", "96", "192", "336", "720", "mean"]
    by_kind = {name: cells for name, *cells in body}
    assert by_kind["full"] == ["0.320 ± 0.010", *["0.320 ± 0.010"], *["**0.320 ± 0.010**"] * 2, "**0.320**"]
    assert by_kind["linear"] == ["**0.311 ± 0.002 (2 seeds)**", *["not run"] * 4]
    assert by_kind["nystrom"] == ["not run", "**0.0456 (1 seed)**", *["not run"] * 3]
    assert by_kind["linear baseline"] == ["0.500"] * 5
    for paper, scores in PUBLISHED.items():
        assert by_kind[f"*{paper}*"][:4] == [f"{mse:.3f}" for mse in scores["etth1"]]
    without_rows = table_of(page(tmp_path), "### etth2")
    assert [name for name, *_ in without_rows[1:2]] == ["linear baseline"]
    assert "Not run: probsparse, fastformer." in page(tmp_path)
    assert "Not run: full, probsparse, linear, nystrom, fastformer." in page(tmp_path)


def test_weather_is_shown_on_the_published_scale_too(tmp_path: Path) -> None:
    scores = {"published_mse": 0.146, "published_linear_mse": 0.2}
    kept(tmp_path, "weather", {f"weather/{h}/full/s1": row(0.19) | scores for h in HORIZONS})
    on_published, ours = (
        {name: cells for name, *cells in table_of(page(tmp_path), f"### weather, −9999 as a {scale}")}
        for scale in ("number", "missing value")
    )
    assert on_published["full"] == ["**0.146 (1 seed)**"] * 4 + ["**0.146**"]
    assert on_published["linear baseline"] == ["0.200"] * 5
    assert on_published["*DUET (2024)*"][0] == "0.146"
    assert ours["full"] == ["**0.190 (1 seed)**"] * 4 + ["**0.190**"]
    assert "*DUET (2024)*" not in ours


def test_errors_on_the_published_scale(tmp_path: Path) -> None:
    """A column of the standard deviation 2 in the first 70% of the rows, and one that −9999 makes wide."""
    pd.DataFrame(
        {"date": range(10), "a": [1.0, 5, 1, 5, 1, 5, 3, 90, 90, 90], "b": [-9999.0, *[1] * 9]}
    ).to_csv(tmp_path / "weather.csv", index=False)
    run = tmp_path / "run"
    run.mkdir()
    pd.DataFrame(
        {"variable": ["a", "b"], "model_rmse_raw": [2.0, 1.0], "linear_rmse_raw": [4.0, 1.0]}
    ).to_csv(run / "errors_by_variable.csv", index=False)
    errors = published_errors(run, tmp_path / "weather.csv")
    variance = np.var([1.0, 5, 1, 5, 1, 5, 3])
    assert errors["published_mse"] == pytest.approx(4 / variance / 2, rel=1e-6)
    assert errors["published_linear_mse"] == pytest.approx(16 / variance / 2, rel=1e-6)


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    """After a change of tables or results: scripts/reproduce --page."""
    assert (ROOT / "docs" / "results.md").read_text() == page(ROOT / "docs" / "results")


def test_the_committed_pictures_are_of_the_committed_results() -> None:
    folder = ROOT / "docs" / "results"
    for table in pictures.PICTURES:
        result = Result.of(TABLES[table], Store(folder, table))
        assert pictures.drawn_from(folder / f"{table}.png") == (
            pictures.digest(result) if result.rows else None
        )


def test_pictures_are_drawn_again_with_new_results(tmp_path: Path) -> None:
    folder, name = tmp_path / "results", "etth1/seq_len=336/96/full/s1"
    kept(folder, "windows", {name: row(0.4)})
    save(tmp_path)
    assert sorted(path.name for path in folder.glob("*.png")) == ["windows.png"]
    before = (folder / "windows.png").read_bytes()
    save(tmp_path)
    assert (folder / "windows.png").read_bytes() == before
    kept(folder, "windows", {name: row(0.3)})
    save(tmp_path)
    assert (folder / "windows.png").read_bytes() != before


def test_files_that_are_missing_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for table in ("electricity", "weather"):
        assert command.main([table, "--root", str(tmp_path)], tmp_path / "docs") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"error: {tmp_path / table}.csv: no such file: put it there by hand: ")
    assert not (tmp_path / "docs").exists()


def test_the_sets_of_a_table_are_looked_for_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    monkeypatch.setattr(DataModule, "prepare_data", lambda data: found.append(data.name))
    command.check_files(chosen("windows", "/96/full/"), tmp_path)
    assert found == ["etth1", "etth2", "etth1"]  # the last one laid out otherwise


TINY = (
    "model=residual_informer", "data=sample", "seq_len=48", "pred_len=24", "attention=full", "model.d_model=8",
    "trainer.max_epochs=1", "data.windows_per_epoch=64", "data.eval_stride=200",
)  # fmt: skip


def test_from_the_command_to_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real run, one that fails, and a second start with nothing of the first left to do."""
    good = Cell("load", "sample", 24, "full", 1, TINY)
    bad = Cell("load", "sample", 24, "full", 2, (*TINY, "model.nothing=7"))
    monkeypatch.setitem(TABLES, "load", (good, bad))
    assert command.main(["load", "--jobs", "2"], tmp_path / "docs", tmp_path / "runs") == 1
    out, err = capsys.readouterr()
    assert "sample/24/full/s2: failed: status 2: " in out
    assert err == "error: 1 cells failed: the same command tries them again\n"
    content = json.loads((tmp_path / "docs" / "results" / "load.json").read_text())
    (found,) = content["cells"].values()
    assert found["overrides"] == list(TINY)
    assert found["epochs"] == len(found["validation_mse_by_epoch"]) == 1
    assert 0 < found["mse"] < found["naive_mse"]
    assert found["test_windows"] == 18
    assert re.fullmatch(r"[0-9a-f]{7,}(-dirty)?|unknown", found["commit"])
    assert str(tmp_path) not in json.dumps(content)
    assert (tmp_path / "docs" / "results.md").read_text() == page(tmp_path / "docs" / "results")
    assert command.main(["load", "--seeds", "1"], tmp_path / "docs", tmp_path / "runs") == 0
    assert "1 cells of load, 1 finished before" in capsys.readouterr().out


def test_stopping_ends_the_runs(tmp_path: Path) -> None:
    run: Any = Runner(tmp_path, 1, tmp_path / "runs")
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    run._running.add(sleeping)
    run.stop()
    assert sleeping.wait(10) < 0
    with pytest.raises(CellFailed):
        run(TABLES["ett"][0])


@pytest.mark.parametrize(
    ("commit", "goes_on"),
    [
        pytest.param("abc1234", True, marks=pytest.mark.long),
        pytest.param("abc1234-dirty", False, marks=pytest.mark.long),
        pytest.param("unknown", False, marks=pytest.mark.long),
    ],
)
def test_a_stopped_cell_goes_on_where_the_code_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str, goes_on: bool
) -> None:
    monkeypatch.setattr("results.runner.described_commit", lambda: commit)
    cell = Cell("load", "sample", 24, "full", 1, (*TINY, "callbacks.checkpoint.every_minutes=0"))
    first = Runner(tmp_path, 1, tmp_path / "runs")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first, cell)
        while not (states := list(tmp_path.glob("runs/*/*/checkpoints/last.ckpt"))):
            assert not running.done(), running.exception()
            time.sleep(0.01)
        with pytest.raises(CellFailed):
            Runner(tmp_path, 1, tmp_path / "runs")(cell)
        first.stop()
        with pytest.raises(CellFailed, match="stopped by SIGTERM"):
            running.result()
    (state,) = states
    content = load_checkpoint(state)
    content["callbacks"]["RunTime"]["seconds"] += 1000
    save_checkpoint(content, state)
    row = Runner(tmp_path, 1, tmp_path / "runs")(cell)
    assert (row["epochs"], row["commit"]) == (1, commit)
    assert (row["seconds"] > 1000) == goes_on
    assert list((tmp_path / "runs").iterdir()) == []


def test_cells_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path / "results", "load", {"sample/24/full/s2": row()})
    assert command.main(["load", "--list", "--only", "sample/24/full"], tmp_path) == 0
    states = {"s1": "missing ", "s2": "finished", "s3": "missing "}
    listed = [f"{state}  sample/24/full/{seed}" for seed, state in states.items()]
    assert capsys.readouterr().out.splitlines() == listed
