"""Grouping of runs into tasks and variants, and the names of these."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forecast.reports.compare.task import ATTENTION, find_differences, name_variants
from tests.support.synthetic_runs import compare, configuration, make_run

KEYS = st.sampled_from(
    [ATTENTION, "attention", "lr", "optimizer", "optimizer._target_", "optimizer.lr", "a.b.lr"]
)
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
    make_run(tmp_path / "b", configuration("attention=full", "pred_len=12"), mse=0.3)
    make_run(tmp_path / "c", with_seed(config, 2), mse=0.4, windows=200)
    minmax = configuration("attention=full", "data.scaler=minmax")
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
    make_run(tmp_path / "a", configuration("attention=full"), mse=0.4)
    longer = configuration("attention=full", "seq_len=720")
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
def test_folders_loggers_and_what_follows_the_test_make_no_variant(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    config = configuration("attention=full")
    make_run(tmp_path / "a", config, mse=0.4)
    make_run(tmp_path / "b", {**with_seed(config, 2), **changed}, mse=0.5)
    (task,) = compare(tmp_path)
    assert [len(entry.runs) for entry in task.variants] == [2]


@pytest.mark.parametrize(
    ("given", "change", "names"),
    [
        ("loss=quantile", lambda config, name: {**config, "levels": [name]}, ["levels=[1]", "levels=[2]"]),
        ("loss=mse", lambda config, name: {**config, "data": {**config["data"], "path": f"{name}.csv"}},
         ["path=1.csv", "path=2.csv"]),
    ],
    ids=["trained levels", "files with other training rows"],
)  # fmt: skip
def test_what_makes_a_variant(
    given: str, change: Callable[[dict[str, Any], int], dict[str, Any]], names: list[str], tmp_path: Path
) -> None:
    for name in (1, 2):
        make_run(tmp_path / str(name), change(configuration(given), name), mse=0.4 + 0.01 * name)
    (task,) = compare(tmp_path)
    assert {entry.name: len(entry.runs) for entry in task.variants} == dict.fromkeys(names, 1)


@given(
    st.lists(
        st.dictionaries(KEYS, VALUES), min_size=1, max_size=6, unique_by=lambda one: repr(sorted(one.items()))
    )
)
@example(
    [{ATTENTION: "probsparse"}, {ATTENTION: "probsparse", "refit": "1"}, {ATTENTION: "full", "refit": "1"}]
)
@example([{ATTENTION: "naive"}, {ATTENTION: "full"}])
def test_names_are_unique(settings: list[Mapping[str, str]]) -> None:
    configurations = [dict(one) for one in settings]
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
