"""Which run folders are read, their grouping into tasks and variants, and times that cannot be compared."""

import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from filelock import FileLock
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forecast.reports.compare.page import draw_costs
from forecast.reports.compare.run_folders import ExcludedRun, FinishedRun, find_run_folders, read_run_folder, read_runs
from forecast.reports.compare.tables import describe_task, describe_times, make_task_table
from forecast.reports.compare.task import ATTENTION, Task, find_differences, group_into_tasks, name_variants
from forecast.system.errors import ConfigError
from tests.support.synthetic_runs import compare, configuration, make_run, make_variants

KEYS = st.sampled_from([ATTENTION, "attention", "lr", "optimizer", "optimizer._target_", "optimizer.lr", "a.b.lr"])
VALUES = st.sampled_from(["full", "Adam", "1", "2, lr=1", "0.123456781", "0.123456782", "–", "", "naive"])


def with_seed(config: dict[str, Any], seed: int) -> dict[str, Any]:
    return {**config, "seed": seed, "data": {**config["data"], "seed": seed}}


def test_seeds_form_a_variant(pair: Path) -> None:
    (task,) = compare(pair)
    assert [entry.name for entry in task.variants] == ["full", "linear"]
    assert [[run.metrics["seed"] for run in entry.runs] for entry in task.variants] == [[1, 2], [1, 2]]
    assert np.std(task.best.values("mse"), ddof=1) == pytest.approx(0.01 / math.sqrt(2))
    assert task.settings == {"full": {"attention": "full"}, "linear": {"attention": "linear"}}
    assert task.shared["seq_len"] == "336"
    assert "model.attention.name" not in task.shared
    tables = [pd.read_parquet(pair / f"full-{seed}" / "errors_by_window.parquet") for seed in (1, 2)]
    assert task.best.losses == pytest.approx(np.mean([table["model_mse"] for table in tables], axis=0))
    assert task.differences["linear"].mean == pytest.approx(0.05)


def test_other_windows_horizons_and_scalers_make_other_tasks(tmp_path: Path) -> None:
    config = configuration("attention=full")
    make_run(tmp_path / "a", config, mse=0.4)
    make_run(tmp_path / "b", {**config, "pred_len": 12}, mse=0.3)
    make_run(tmp_path / "c", with_seed(config, 2), mse=0.4, windows=200)
    minmax = {**config, "data": {**config["data"], "scaler": "minmax"}}
    baselines = {"naive": 0.03, "seasonal_naive": 0.02, "linear": 0.02}
    make_run(tmp_path / "d", minmax, mse=0.01, baselines=baselines)
    found = compare(tmp_path)
    assert [len(task.variants) for task in found] == [1, 1, 1, 1]
    assert sorted(task.title for task in found) == [
        "sample, 12 steps ahead, features=M",
        "sample, 24 steps ahead, features=M, scaler=minmax",
        "sample, 24 steps ahead, features=M, scaler=standard",
        "sample, 24 steps ahead, features=M, scaler=standard",
    ]


def test_another_seq_len_makes_a_variant_of_the_same_task(tmp_path: Path) -> None:
    config = configuration("attention=full")
    make_run(tmp_path / "a", config, mse=0.4)
    longer = {**config, "seq_len": 720}
    baselines = {"naive": 0.9, "seasonal_naive": 0.6, "linear": 0.45}
    folder = make_run(tmp_path / "b", longer, mse=0.41, baselines=baselines)
    windows = pd.read_parquet(tmp_path / "a" / "errors_by_window.parquet")
    windows["linear_mse"] *= 0.9
    windows.to_parquet(folder / "errors_by_window.parquet")
    (task,) = compare(tmp_path)
    assert [entry.name for entry in task.variants] == ["seq_len=336", "seq_len=720"]
    assert [entry.name for entry in task.baselines] == [
        "linear baseline (seq_len=720)", "linear baseline (seq_len=336)", "seasonal naive", "naive",
    ]  # fmt: skip
    assert task.best_baseline.mean("mse") == 0.45


@pytest.mark.parametrize(
    "changed", [{"run_name": "x", "output_root": "y", "logger": {"mode": "online"}}, {"refit": "full", "levels": [50]}]
)  # fmt: skip
def test_folders_loggers_and_what_follows_the_test_make_no_variant(changed: dict[str, Any], tmp_path: Path) -> None:
    config = configuration("attention=full")
    make_run(tmp_path / "a", config, mse=0.4)
    make_run(tmp_path / "b", {**with_seed(config, 2), **changed}, mse=0.5)
    (task,) = compare(tmp_path)
    assert [len(entry.runs) for entry in task.variants] == [2]


@pytest.mark.parametrize(
    ("loss", "change", "names"),
    [
        ("quantile", lambda config, name: {**config, "levels": [name]}, ["levels=[1]", "levels=[2]"]),
        ("mse", lambda config, name: {**config, "data": {**config["data"], "path": f"{name}.csv"}},
         ["path=1.csv", "path=2.csv"]),
    ],
    ids=["trained levels", "files with other training rows"],
)  # fmt: skip
def test_what_makes_a_variant(
    loss: str, change: Callable[[dict[str, Any], int], dict[str, Any]], names: list[str], tmp_path: Path
) -> None:
    for name in (1, 2):
        config = {**configuration("attention=full"), "loss": loss}
        make_run(tmp_path / str(name), change(config, name), mse=0.4 + 0.01 * name)
    (task,) = compare(tmp_path)
    assert {entry.name: len(entry.runs) for entry in task.variants} == dict.fromkeys(names, 1)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(KEYS, VALUES), min_size=1, max_size=6, unique_by=lambda one: repr(sorted(one.items()))))
@example([{ATTENTION: "probsparse"}, {ATTENTION: "probsparse", "refit": "1"}, {ATTENTION: "full", "refit": "1"}])
@example([{ATTENTION: "naive"}, {ATTENTION: "full"}])
def test_names_are_unique(given: list[Mapping[str, str]]) -> None:
    configurations = [dict(one) for one in given]
    names = [*name_variants(find_differences(configurations), configurations, taken=["naive"]), "naive"]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_names_contain_only_what_differs(tmp_path: Path) -> None:
    choices = {
        "a": ("attention=full",),
        "b": ("attention=linear",),
        "c": ("attention=linear", "feature_map=relu"),
        "d": ("attention=probsparse", "optimizer=adam", "model.d_model=48"),
        "e": ("attention=probsparse", "optimizer.lr=0.123456789"),
    }
    for i, (name, choice) in enumerate(choices.items()):
        make_run(tmp_path / name, configuration(*choice), mse=0.4 + 0.01 * i)
    (task,) = compare(tmp_path)
    names = {entry.runs[0].folder.name: entry.name for entry in task.variants}
    assert names == {
        "a": "full", "b": "linear", "c": "linear, feature_map=relu",
        "d": "probsparse, optimizer=Adam, d_model=48", "e": "probsparse, lr=0.1235",
    }  # fmt: skip
    assert list(task.settings["full"]) == ["attention", "feature_map", "optimizer", "d_model", "lr"]
    assert task.settings["probsparse, lr=0.1235"]["lr"] == "0.123456789"


def test_a_seed_of_a_variant_counts_once(tmp_path: Path) -> None:
    for age, (name, checkpoint, seed) in enumerate([("a", "x", 1), ("b", "y", 1), ("c", "y", 1), ("d", "y", 2)]):
        config = {**configuration("attention=full"), "checkpoint": f"runs/{checkpoint}", "seed": seed}
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
    ("stride", "ids", "overlap"), [(None, None, 24), (5, None, 5), (100, None, 1), (5, "ab", 24), (5, "a", 5)]
)
def test_forecast_starts_whose_windows_share_a_step(stride: int | None, ids: str | None, overlap: int) -> None:
    """Windows of several series may start one step apart, whatever the stride; runs of old versions have none."""
    table, no = pd.DataFrame({} if ids is None else {"unique_id": list(ids)}), pd.DataFrame()
    facts = {"pred_len": 24, "eval_stride": stride}
    run = FinishedRun(Path(), "", facts, {}, no, no, no, table)
    assert (run.overlap, run.ids) == (overlap, list(ids or ""))


def test_reasons_contain_no_absolute_paths(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = pair / "full-1"
    (run / "metrics.csv").unlink()
    (run / "metrics.csv").mkdir()
    (pair / "full-2" / "metrics.json").unlink()
    (pair / "full-2" / "error.txt").write_text(f"{pair}/full-2/x.ckpt: no km/h in data.path=/home/me/load.csv, see a/b")
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


def make_backtest(run: Path) -> None:
    (run / "metrics.json").unlink()
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "refit_every": None}))


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
        (lambda run: make_backtest(run), "a backtest"),
        (lambda run: (run / "config.yaml").write_text("a: ["), "cannot be read: "),
        (lambda run: (run / "config.yaml").unlink(), "not a run folder"),
    ],
)  # fmt: skip
def test_an_excluded_run_has_a_reason(tmp_path: Path, change: Any, reason: str) -> None:
    run = make_run(tmp_path / "run", configuration("attention=full"), mse=0.4)
    assert isinstance(read_run_folder(run), FinishedRun)
    change(run)
    found = read_run_folder(run)
    assert isinstance(found, ExcludedRun)
    assert found.reason.startswith(reason)


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


ENDS = {
    "after": ("10:01:00", "10:02:00", "10:03:00", "10:04:00"),
    "beside": ("10:01:00", "10:01:30", "10:03:00", "10:04:00"),
}
"""When four runs of a minute each ended."""


def compare_runs(root: Path, ends: tuple[str, ...]) -> Task:
    jobs = [(kind, seed) for kind in ("full", "linear") for seed in (1, 2)]
    for (kind, seed), end in zip(jobs, ends, strict=True):
        config = {**configuration(f"attention={kind}"), "seed": seed}
        finished = f"2026-11-25T{end}+00:00"
        mse = (0.40 if kind == "full" else 0.41) + 1e-3 * seed
        make_run(root / f"{kind}-{seed}", config, mse=mse, finished=finished)
    (task,) = compare(root)
    return task


def find_bold(task: Task) -> set[str]:
    """The columns with a best value, and the costs with a Pareto front."""
    table, costs = make_task_table(task), draw_costs(task)
    assert costs is not None
    fronts = {heading for heading, traces in costs.choices.items() if traces[-1]["x"]}
    return fronts | {
        column.key
        for _, cells in table.rows
        for column, cell in zip(table.columns, cells, strict=True)
        if cell.style == "leads"
    }


@pytest.mark.parametrize("name", ENDS)
def test_times_of_runs_beside_others_are_neither_bold_nor_in_a_front_nor_an_answer(name: str, tmp_path: Path) -> None:
    task, alone = compare_runs(tmp_path, ENDS[name]), name == "after"
    assert task.count_disturbed_runs("seconds") == (0 if alone else 2)
    assert describe_times(task).startswith("" if alone else "Times of 2 runs cannot be compared")
    times = {"seconds", "ms_per_window", "windows_per_second", "run time (s)", "ms/window"}
    assert find_bold(task) & times == (times if alone else set())
    assert {"n_parameters", "parameters"} <= find_bold(task)
    assert ("ms a window" in " ".join(describe_task(task))) == alone


@pytest.mark.parametrize("match", [None, "parameters"])
def test_a_number_of_parameters_that_match_made_equal_has_no_best(match: str | None, tmp_path: Path) -> None:
    for attention, n_parameters in {"full": 1000, "none": 998}.items():
        config = {**configuration(f"attention={attention}"), "match": match}
        make_run(tmp_path / attention, config, mse=0.4, n_parameters=n_parameters)
    (task,) = compare(tmp_path)
    assert ({"n_parameters", "parameters"} & find_bold(task) == set()) == (match == "parameters")


@pytest.mark.parametrize(("memory_of", "compares"), [("device", True), ("process", False)])
def test_the_peak_memory_of_a_process_is_not_compared(memory_of: str, compares: bool, tmp_path: Path) -> None:
    make_variants(tmp_path, {"full": 0.4, "linear": 0.45}, seeds=1, peak_memory_of=memory_of)
    (task,) = compare(tmp_path)
    assert ("peak memory (MiB)" in find_bold(task)) == ("peak_memory_mb" in find_bold(task)) == compares
    assert ("peak_memory_mb" in [column.key for column in make_task_table(task).columns]) == compares
    assert all(math.isnan(entry.mean("peak_memory_mb")) != compares for entry in task.variants)
