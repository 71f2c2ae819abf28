"""Which runs are read, which are compared with which, and what they are called."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from filelock import FileLock

from forecast.comparison import sheets
from forecast.comparison.runs import LeftOut, Run, find, read, read_all
from forecast.comparison.tables import interval_scores, number, rows, verdict
from forecast.comparison.tasks import Task, tasks, told_apart
from forecast.errors import ConfigError
from tests.comparison.made import configuration, make_run


def compared(root: Path) -> list[Task]:
    return tasks(read_all(find([str(root)]))[0])


def with_seed(config: dict[str, Any], seed: int) -> dict[str, Any]:
    return {**config, "seed": seed, "data": {**config["data"], "seed": seed}}


def test_seeds_form_a_variant(pair: Path) -> None:
    (task,) = compared(pair)
    assert [entry.name for entry in task.variants] == ["full", "linear"]
    assert [[run.metrics["seed"] for run in entry.runs] for entry in task.variants] == [[1, 2], [1, 2]]
    assert task.best.spread("mse") == pytest.approx((0.415, 0.01 / math.sqrt(2)))
    assert task.settings == {"full": {"attention": "full"}, "linear": {"attention": "linear"}}
    assert task.shared["seq_len"] == "336"
    assert "model.attention.name" not in task.shared


def test_losses_are_the_mean_over_seeds(pair: Path) -> None:
    (task,) = compared(pair)
    tables = [pd.read_parquet(pair / f"full-{seed}" / "errors_by_window.parquet") for seed in (1, 2)]
    assert task.best.losses == pytest.approx(np.mean([table["model_mse"] for table in tables], axis=0))
    assert task.differences["linear"].mean == pytest.approx(0.05)


def test_baselines_stand_beside_the_variants(pair: Path) -> None:
    (task,) = compared(pair)
    assert [entry.name for entry in task.baselines] == ["linear map", "seasonal naive", "naive"]
    assert task.skill(task.best) == pytest.approx([1 - 0.41 / 0.5, 1 - 0.42 / 0.5])
    table = {row["name"]: row for row in rows(task)}
    assert list(table) == ["full", "linear", "linear map", "seasonal naive", "naive"]
    assert table["linear map"]["mse"] == 0.5
    assert table["full"]["verdict"] == "best"
    assert table["naive"]["verdict"] == "worse"
    assert table["naive"]["p_adjusted"] == min(1, 3 * table["naive"]["p_value"])
    assert not any(row["worse_than_best_baseline"] for row in table.values())


def test_other_windows_horizons_and_data_are_other_tasks(tmp_path: Path) -> None:
    config = configuration("attention=full")
    make_run(tmp_path / "a", config, mse=0.4)
    make_run(tmp_path / "b", configuration("attention=full", "pred_len=12"), mse=0.3)
    make_run(tmp_path / "c", with_seed(config, 2), mse=0.4, windows=200)
    minmax = configuration("attention=full", "data.scaler=minmax")
    make_run(
        tmp_path / "d", minmax, mse=0.01, baselines={"naive": 0.03, "seasonal_naive": 0.02, "linear": 0.02}
    )
    found = compared(tmp_path)
    assert [len(task.variants) for task in found] == [1, 1, 1, 1]
    assert sorted(task.title for task in found) == [
        "sample, 12 steps ahead, features=M",
        "sample, 24 steps ahead, features=M, scaler=minmax",
        "sample, 24 steps ahead, features=M, scaler=standard",
        "sample, 24 steps ahead, features=M, scaler=standard",
    ]


def test_a_longer_history_is_a_variant_of_the_same_task(tmp_path: Path) -> None:
    make_run(tmp_path / "a", configuration("attention=full"), mse=0.4)
    longer = configuration("attention=full", "seq_len=720")
    rules = {"naive": 0.9, "seasonal_naive": 0.6, "linear": 0.45}
    folder = make_run(tmp_path / "b", longer, mse=0.41, baselines=rules)
    windows = pd.read_parquet(tmp_path / "a" / "errors_by_window.parquet")
    windows["linear_mse"] *= 0.9
    windows.to_parquet(folder / "errors_by_window.parquet")
    (task,) = compared(tmp_path)
    assert [entry.name for entry in task.variants] == ["seq_len=336", "seq_len=720"]
    assert [entry.name for entry in task.baselines] == [
        "linear map (seq_len=720)", "linear map (seq_len=336)", "seasonal naive", "naive",
    ]  # fmt: skip
    assert task.best_baseline.mean("mse") == 0.45


def test_names_say_what_differs_and_no_more(tmp_path: Path) -> None:
    choices = {
        "a": ("attention=full",),
        "b": ("attention=linear",),
        "c": ("attention=linear", "feature_map=relu"),
        "d": ("attention=probsparse", "optimizer=adam", "model.d_model=48"),
        "e": ("attention=probsparse", "optimizer.lr=0.123456789"),
    }
    for i, (name, choice) in enumerate(choices.items()):
        make_run(tmp_path / name, configuration(*choice), mse=0.4 + 0.01 * i)
    (task,) = compared(tmp_path)
    names = {entry.runs[0].folder.name: entry.name for entry in task.variants}
    assert names == {
        "a": "full", "b": "linear", "c": "linear, feature_map=relu",
        "d": "probsparse, optimizer=Adam, d_model=48", "e": "probsparse, lr=0.1235",
    }  # fmt: skip
    assert list(task.settings["full"]) == ["attention", "feature_map", "optimizer", "d_model", "lr"]
    assert task.settings["probsparse, lr=0.1235"]["lr"] == "0.123456789"


def test_copies_and_consequences_of_a_setting_are_not_named() -> None:
    one = {"seq_len": "96", "model.seq_len": "96", "optimizer._target_": "AdamW", "optimizer.decay": "0.1"}
    other = {"seq_len": "48", "model.seq_len": "48", "optimizer._target_": "Adam"}
    third = {**one, "optimizer.decay": "0.2"}
    assert told_apart([one, other]) == [
        {"seq_len": "96", "optimizer": "AdamW"}, {"seq_len": "48", "optimizer": "Adam"},
    ]  # fmt: skip
    assert [values["decay"] for values in told_apart([one, other, third])] == ["0.1", "–", "0.2"]


def test_where_a_run_lies_and_what_logs_it_makes_no_variant(tmp_path: Path) -> None:
    config = configuration("attention=full")
    other = {**with_seed(config, 2), "run_name": "x", "output_root": "y", "logger": {"mode": "online"}}
    other["data"] = {**other["data"], "root": "z"}
    make_run(tmp_path / "a", config, mse=0.4)
    make_run(tmp_path / "b", other, mse=0.5)
    (task,) = compared(tmp_path)
    assert [len(entry.runs) for entry in task.variants] == [2]


def test_what_comes_after_the_test_makes_no_variant(tmp_path: Path) -> None:
    config = with_seed(configuration("attention=full"), 2)
    make_run(tmp_path / "a", configuration("attention=full"), mse=0.4)
    make_run(tmp_path / "b", {**config, "refit": "full", "levels": [50]}, mse=0.5)
    (task,) = compared(tmp_path)
    assert [len(entry.runs) for entry in task.variants] == [2]


def test_the_levels_that_a_model_was_trained_for_make_a_variant(tmp_path: Path) -> None:
    for levels in ([80], [50]):
        made = {**configuration("loss=quantile"), "levels": levels}
        make_run(tmp_path / f"{levels[0]}", made, mse=0.4 + levels[0] / 1000)
    (task,) = compared(tmp_path)
    assert [entry.name for entry in task.variants] == ["levels=[50]", "levels=[80]"]


def test_files_that_differ_before_the_test_are_no_seeds(tmp_path: Path) -> None:
    for name in ("a", "b"):
        config = configuration()
        config["data"]["path"] = f"{name}.csv"
        make_run(tmp_path / name, config, mse=0.4)
    (task,) = compared(tmp_path)
    assert [(entry.name, len(entry.runs)) for entry in task.variants] == [
        ("path=a.csv", 1),
        ("path=b.csv", 1),
    ]


def test_runs_that_went_on_from_other_checkpoints_are_no_repeats(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_run(tmp_path / name, {**configuration(), "checkpoint": f"runs/{name}"}, mse=0.4)
    make_run(tmp_path / "c", {**configuration(), "checkpoint": "runs/b"}, mse=0.4)
    runs, left_out = read_all(find([str(tmp_path)]))
    assert len(runs) == 2
    assert len(left_out) == 1
    (task,) = tasks(runs)
    assert [len(entry.runs) for entry in task.variants] == [2]


def test_reasons_do_not_say_where_files_lie(
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
    found = [read(pair / name) for name in ("full-1", "full-2", "linear-1")]
    reasons = [one.reason for one in found if isinstance(one, LeftOut)]
    assert len(reasons) == 3
    assert not any(str(tmp_path) in reason for reason in reasons)
    assert reasons[1:] == [
        "x.ckpt: no km/h in data.path=load.csv, see a/b", "cannot be read: config.yaml: Is a directory",
    ]  # fmt: skip
    monkeypatch.chdir(pair / "full-2")
    here = read(Path())
    assert isinstance(here, LeftOut)
    assert here.reason == reasons[1]


def test_of_a_repeated_run_the_newer_counts(pair: Path) -> None:
    copy = shutil.copytree(pair / "full-1", pair / "full-1-again")
    (copy / "metrics.json").write_text((pair / "full-1" / "metrics.json").read_text())
    runs, left_out = read_all(find([str(pair)]))
    assert sorted(run.folder.name for run in runs) == ["full-1-again", "full-2", "linear-1", "linear-2"]
    (old,) = left_out
    assert old == LeftOut(pair / "full-1", "full-1-again repeats it with the same settings")


HELD = []


def hold(run: Path) -> None:
    """As the process does that writes in the folder; one that was killed leaves the file alone behind."""
    HELD.append(FileLock(run / "run.lock").acquire())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda run: (run / "metrics.json").unlink(), "did not finish"),
        (lambda run: [(run / "metrics.json").unlink(), (run / "error.txt").write_text("no rows\n")], "no rows"),
        (lambda run: [(run / "metrics.json").unlink(), (run / "run.lock").touch()], "did not finish"),
        (lambda run: [(run / "metrics.json").unlink(), hold(run)], "still running"),
        (lambda run: (run / "metrics.json").write_text("{"), "cannot be read: Expecting property name"),
        (lambda run: (run / "metrics.json").write_text('{"test": {"mse": null}}'), "its test MSE is not a number"),
        (lambda run: (run / "errors_by_step.csv").unlink(), "errors_by_step.csv is missing"),
        (lambda run: (run / "errors_by_window.parquet").write_text("x"), "cannot be read: "),
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
def test_a_run_that_cannot_be_compared_says_why(pair: Path, change: Any, reason: str) -> None:
    change(pair / "full-1")
    found = read(pair / "full-1")
    assert isinstance(found, LeftOut)
    assert found.reason.startswith(reason)
    assert isinstance(read(pair / "full-2"), Run)


def test_runs_are_found_by_folder_multirun_glob_and_folder_of_both(pair: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "all" / "sweep"
    for i in (10, 9):
        shutil.copytree(pair / "full-1", sweep / f"{i}_full")
    shutil.copytree(pair / "full-2", tmp_path / "all" / "single")
    (sweep / "multirun.yaml").touch()
    (tmp_path / "all" / "notes.txt").touch()
    (sweep / "9_full" / "wandb" / "files").mkdir(parents=True)
    (sweep / "9_full" / "wandb" / "files" / "config.yaml").touch()

    def names(*places: str) -> list[str]:
        return [path.name for path in find(places)]

    assert names(f"{sweep}/9_full") == ["9_full"]
    assert names(str(sweep)) == ["9_full", "10_full"]
    assert names(f"{tmp_path}/all") == ["single", "9_full", "10_full"]
    assert names(f"{sweep}/*_full", str(sweep)) == ["10_full", "9_full"]
    assert names(f"{tmp_path}/all/*") == ["single", "9_full", "10_full"]
    assert names(str(tmp_path / "all" / "notes.txt"), str(sweep / "9_full")) == [
        "9_full"
    ]  # as a shell spells *
    for wrong in ("nowhere", "nowhere/*"):
        with pytest.raises(ConfigError, match="there is no such folder"):
            find([f"{tmp_path}/{wrong}"])


def test_interval_scores_where_runs_have_them(pair: Path) -> None:
    for seed, coverage in ((1, 0.78), (2, 0.82)):
        path = pair / f"full-{seed}" / "metrics.json"
        scores = {"80": {"coverage": coverage, "width": 1.5}, "crps": 0.3}
        path.write_text(json.dumps({**json.loads(path.read_text()), "intervals": {"conformal": scores}}))
    (task,) = compared(pair)
    found = interval_scores(task)
    assert set(found) == {"full"}
    assert found["full"]["conformal"]["coverage_80"] == pytest.approx((0.80, 0.04 / math.sqrt(2)))
    table = {row["name"]: row for row in rows(task)}
    assert table["full"]["conformal_crps"] == 0.3
    assert "conformal_crps" not in table["linear"]


def test_too_few_windows_are_said_to_be(tmp_path: Path) -> None:
    for kind, mse in (("full", 0.4), ("linear", 0.5)):
        make_run(tmp_path / kind, configuration(f"attention={kind}"), mse=mse, windows=40)
    (task,) = compared(tmp_path)
    assert verdict(task, task.variants[1]) == "too few windows to tell"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((0.41234, 0.01), "0.412 ± 0.010"), ((9623.0, 0.0), "9,623"), ((-1.5,), "−1.500"), ((0.0123,), "0.0123"),
        ((12345.6, 100.2), "12,346 ± 100"), ((85.958, 37.2), "86.0 ± 37.2"), ((math.nan,), "–"), ((0.0,), "0"),
        ((0.00001234,), "1.23e−05"), ((4.0, math.nan), "4"),
    ],
)  # fmt: skip
def test_numbers_have_the_decimals_that_their_size_asks_for(given: tuple[float, ...], text: str) -> None:
    assert number(*given) == text


def test_a_model_without_error_has_no_rival_in_percent(tmp_path: Path) -> None:
    for kind, mse in (("full", 0.0), ("linear", 0.1)):
        make_run(tmp_path / kind, configuration(f"attention={kind}"), mse=mse)
    (task,) = compared(tmp_path)
    rival = next(entry for entry in task.variants if entry.name == "linear")
    assert next(iter(sheets.tested(task, rival))).text == sheets.MISSING
