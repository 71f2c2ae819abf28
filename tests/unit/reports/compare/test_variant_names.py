"""Names of variants: the settings that differ, unique."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forecast.reports.compare.grouping import ATTENTION, find_differences, group_into_tasks, name_variants
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.reports.compare.task import Task
from forecast.reports.compare.writers import MARKDOWN, format_tables
from tests.support.synthetic_runs import configuration, make_run

KEYS = st.sampled_from(
    [ATTENTION, "attention", "lr", "optimizer", "optimizer._target_", "optimizer.lr", "a.b.lr"]
)
VALUES = st.sampled_from(["full", "Adam", "1", "2, lr=1", "0.123456781", "0.123456782", "–", "", "naive"])


def compared(root: Path) -> list[Task]:
    return group_into_tasks(read_runs(find_run_folders([str(root)]))[0])


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


def test_a_missing_setting_is_named_only_if_names_would_be_equal() -> None:
    old, new, other = {ATTENTION: "a"}, {ATTENTION: "a", "sampling": "1"}, {ATTENTION: "b", "sampling": "1"}
    assert name_variants(find_differences([old, new, other]), [old, new, other]) == [
        "a, sampling=–",
        "a",
        "b",
    ]
    known = {ATTENTION: "b", "sampling": "2"}
    assert name_variants(find_differences([old, known]), [old, known]) == ["a", "b, sampling=2"]


def test_runs_older_than_a_setting_are_compared_with_newer_ones(tmp_path: Path) -> None:
    """A missing setting equals null; any other value makes another variant."""
    old = configuration("attention=probsparse")
    del old["data"]["season"], old["optimizer"]["fused"]
    make_run(tmp_path / "a", old, mse=0.40)
    make_run(tmp_path / "b", configuration("attention=probsparse"), mse=0.42)
    make_run(tmp_path / "c", configuration("attention=full"), mse=0.44)
    (task,) = compared(tmp_path)
    names = [entry.name for entry in task.variants]
    assert names == ["probsparse, fused=–", "probsparse", "full"]
    assert list(task.settings["full"]) == ["attention", "fused"]
    assert set(task.differences) == {*names[1:], *(baseline.name for baseline in task.baselines)}
    assert "| probsparse, fused=– | 1 |" in format_tables(MARKDOWN, [task])


def test_an_attention_named_like_a_baseline_is_a_variant(tmp_path: Path) -> None:
    for kind, mse in (("naive", 0.4), ("full", 0.3)):
        made = configuration("attention=full")
        made["model"]["attention"]["name"] = kind
        make_run(tmp_path / kind, made, mse=mse)
    (task,) = compared(tmp_path)
    assert task.differences[task.variants[1].name].mean == pytest.approx(0.1)
    assert len(task.differences) == 1 + len(task.baselines)


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
    (task,) = compared(tmp_path)
    names = {entry.runs[0].folder.name: entry.name for entry in task.variants}
    assert names == {
        "a": "full", "b": "linear", "c": "linear, feature_map=relu",
        "d": "probsparse, optimizer=Adam, d_model=48", "e": "probsparse, lr=0.1235",
    }  # fmt: skip
    assert list(task.settings["full"]) == ["attention", "feature_map", "optimizer", "d_model", "lr"]
    assert task.settings["probsparse, lr=0.1235"]["lr"] == "0.123456789"


def test_copies_and_consequences_of_a_setting_are_omitted() -> None:
    one = {"seq_len": "96", "model.seq_len": "96", "optimizer._target_": "AdamW", "optimizer.decay": "0.1"}
    other = {"seq_len": "48", "model.seq_len": "48", "optimizer._target_": "Adam"}
    third = {**one, "optimizer.decay": "0.2"}
    assert find_differences([one, other]) == [
        {"seq_len": "96", "optimizer": "AdamW"}, {"seq_len": "48", "optimizer": "Adam"},
    ]  # fmt: skip
    assert [values["decay"] for values in find_differences([one, other, third])] == ["0.1", "–", "0.2"]
