"""What variants are called: by what differs, and never two the same."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forecast.comparison import papers
from forecast.comparison.naming import ATTENTION, told_apart, variant_names
from forecast.comparison.runs import find, read_all
from forecast.comparison.tasks import Task, tasks
from tests.comparison.made import configuration, make_run

KEYS = st.sampled_from(
    [ATTENTION, "attention", "lr", "optimizer", "optimizer._target_", "optimizer.lr", "a.b.lr"]
)
VALUES = st.sampled_from(["full", "Adam", "1", "2, lr=1", "0.123456781", "0.123456782", "–", "", "naive"])


def compared(root: Path) -> list[Task]:
    return tasks(read_all(find([str(root)]))[0])


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
    names = [*variant_names(told_apart(configurations), configurations, taken=["naive"]), "naive"]
    assert len(set(names)) == len(names)


def test_a_missing_setting_is_named_only_where_nothing_else_tells_variants_apart() -> None:
    old, new, other = {ATTENTION: "a"}, {ATTENTION: "a", "sampling": "1"}, {ATTENTION: "b", "sampling": "1"}
    assert variant_names(told_apart([old, new, other]), [old, new, other]) == ["a, sampling=–", "a", "b"]
    known = {ATTENTION: "b", "sampling": "2"}
    assert variant_names(told_apart([old, known]), [old, known]) == ["a", "b, sampling=2"]


def test_runs_older_than_a_setting_are_compared_with_newer_ones(tmp_path: Path) -> None:
    """One that may be null is the same when it is not there; any other is told apart."""
    old = configuration("attention=probsparse")
    del old["data"]["season"], old["optimizer"]["fused"]
    make_run(tmp_path / "a", old, mse=0.40)
    make_run(tmp_path / "b", configuration("attention=probsparse"), mse=0.42)
    make_run(tmp_path / "c", configuration("attention=full"), mse=0.44)
    (task,) = compared(tmp_path)
    names = [entry.name for entry in task.variants]
    assert names == ["probsparse, fused=–", "probsparse", "full"]
    assert list(task.settings["full"]) == ["attention", "fused"]
    assert set(task.differences) == {*names[1:], *(rule.name for rule in task.baselines)}
    assert "| probsparse, fused=– | 1 |" in papers.markdown([task])


def test_an_attention_called_like_a_baseline_is_not_taken_for_it(tmp_path: Path) -> None:
    for kind, mse in (("naive", 0.4), ("full", 0.3)):
        made = configuration("attention=full")
        made["model"]["attention"]["name"] = kind
        make_run(tmp_path / kind, made, mse=mse)
    (task,) = compared(tmp_path)
    assert task.differences[task.variants[1].name].mean == pytest.approx(0.1)
    assert len(task.differences) == 1 + len(task.baselines)
