"""Which run folders are found and read, and why others are excluded."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from filelock import FileLock

from forecast.reports.compare.run_folders import (
    ExcludedRun,
    FinishedRun,
    find_run_folders,
    read_run_folder,
    read_runs,
)
from forecast.reports.compare.task import group_into_tasks
from forecast.system.errors import ConfigError
from tests.support.synthetic_runs import configuration, make_run


def test_a_seed_of_a_variant_counts_once(tmp_path: Path) -> None:
    for age, (name, checkpoint, seed) in enumerate(
        [("a", "x", 1), ("b", "y", 1), ("c", "y", 1), ("d", "y", 2)]
    ):
        config = {**configuration(), "checkpoint": f"runs/{checkpoint}", "seed": seed}
        make_run(tmp_path / name, config, mse=0.4)
        os.utime(tmp_path / name / "metrics.json", (age, age))
    runs, excluded = read_runs(find_run_folders([str(tmp_path)]))
    assert {run.folder.name: run.reason for run in excluded} == {
        "a": "same settings and seed as the newer run b",
        "b": "same settings and seed as the newer run c",
    }
    (task,) = group_into_tasks(runs)
    assert [[run.folder.name for run in entry.runs] for entry in task.variants] == [["c", "d"]]


@pytest.mark.parametrize(
    ("stride", "ids", "overlap"),
    [(None, None, 24), (5, None, 5), (100, None, 1), (5, "ab", 24), (5, "a", 5)],
)
def test_forecast_starts_whose_windows_share_a_step(
    stride: int | None, ids: str | None, overlap: int
) -> None:
    """Windows of several series may start one step apart, whatever the stride; runs of old versions have none."""
    table, no = pd.DataFrame({} if ids is None else {"unique_id": list(ids)}), pd.DataFrame()
    facts = {"pred_len": 24, "eval_stride": stride}
    run = FinishedRun(Path(), "", facts, {}, no, no, no, table)
    assert (run.overlap, run.ids) == (overlap, list(ids or ""))


def test_reasons_contain_no_absolute_paths(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = pair / "full-1"
    (run / "metrics.csv").unlink()
    (run / "metrics.csv").mkdir()
    (pair / "full-2" / "metrics.json").unlink()
    (pair / "full-2" / "error.txt").write_text(
        f"{pair}/full-2/x.ckpt: no km/h in data.path=/home/me/load.csv, see a/b"
    )
    (pair / "linear-1" / "config.yaml").unlink()
    (pair / "linear-1" / "config.yaml").mkdir()
    found = [read_run_folder(pair / name) for name in ("full-1", "full-2", "linear-1")]
    reasons = [one.reason for one in found if isinstance(one, ExcludedRun)]
    assert len(reasons) == 3
    assert not any(str(tmp_path) in reason for reason in reasons)
    assert reasons[1:] == [
        "x.ckpt: no km/h in data.path=load.csv, see a/b", "cannot be read: config.yaml: Is a directory",
    ]  # fmt: skip
    monkeypatch.chdir(pair / "full-2")
    here = read_run_folder(Path())
    assert isinstance(here, ExcludedRun)
    assert here.reason == reasons[1]


LOCKS = []


def lock_run(run: Path) -> None:
    """Lock a run folder as the process that writes to it does. A killed process leaves the file without a lock."""
    LOCKS.append(FileLock(run / "run.lock").acquire())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda run: (run / "metrics.json").unlink(), "did not finish"),
        (lambda run: [(run / "metrics.json").unlink(), (run / "error.txt").write_text("no rows\n")], "no rows"),
        (lambda run: [(run / "metrics.json").unlink(), lock_run(run)], "still running"),
        (lambda run: (run / "metrics.json").write_text("{"), "metrics.json: cannot be read: Expecting property name"),
        (lambda run: (run / "metrics.json").write_text('{"test": {"mse": null}}'), "its test MSE is not a number"),
        (lambda run: (run / "errors_by_step.csv").unlink(), "errors_by_step.csv is missing"),
        (lambda run: (run / "config.yaml").write_text("benchmark: {}\n"), "not a training run"),
        (
            lambda run: [
                (run / "metrics.json").unlink(),
                (run / "config.yaml").write_text(yaml.safe_dump({**configuration(), "refit_every": None})),
            ],
            "a backtest",
        ),
        (lambda run: (run / "config.yaml").write_text("a: ["), "cannot be read: "),
        (lambda run: (run / "config.yaml").unlink(), "not a run folder"),
    ],
)  # fmt: skip
def test_an_excluded_run_has_a_reason(pair: Path, change: Any, reason: str) -> None:
    change(pair / "full-1")
    found = read_run_folder(pair / "full-1")
    assert isinstance(found, ExcludedRun)
    assert found.reason.startswith(reason)
    assert isinstance(read_run_folder(pair / "full-2"), FinishedRun)


def test_runs_are_found_in_run_folders_sweeps_globs_and_folders_of_both(pair: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "all" / "sweep"
    for i in (10, 9):
        shutil.copytree(pair / "full-1", sweep / f"{i}_full")
    shutil.copytree(pair / "full-2", tmp_path / "all" / "single")
    (sweep / "multirun.yaml").touch()
    (tmp_path / "all" / "notes.txt").touch()
    (sweep / "9_full" / "wandb" / "files").mkdir(parents=True)
    (sweep / "9_full" / "wandb" / "files" / "config.yaml").touch()

    def names(*places: str) -> list[str]:
        return [path.name for path in find_run_folders(places)]

    assert names(f"{sweep}/9_full") == ["9_full"]
    assert names(str(sweep)) == ["9_full", "10_full"]
    assert names(f"{tmp_path}/all") == ["single", "9_full", "10_full"]
    assert names(f"{sweep}/*_full", str(sweep)) == ["10_full", "9_full"]
    assert names(f"{tmp_path}/all/*") == ["single", "9_full", "10_full"]
    assert names(str(tmp_path / "all" / "notes.txt"), str(sweep / "9_full")) == ["9_full"]
    for nothing in ("nowhere", "nowhere/*"):
        with pytest.raises(ConfigError, match=re.escape(f"{nothing}: no such folder; give run folders")):
            names(nothing)
