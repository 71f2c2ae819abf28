"""Verdicts of a comparison of runs that were trained here: equal variants, and one that was hardly trained."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from forecast.reports.compare.run_folders import FinishedRun, find_run_folders, read_runs
from forecast.reports.compare.task import group_into_tasks
from tests.support.commands import train_here, workplace

SEEDS = (1, 2, 3, 4, 5, 6)
SHARED = (
    "attention=full", "logger=[]", "data.split=[0.5,0.1,0.4]", "model.encoder_layers=1", "data.batch_size=64",
    "optimizer.lr=1e-2",
)  # fmt: skip
TRAINED = ("trainer.max_epochs=3", "output_root=trained")


def train(place: Path, seeds: Sequence[int], *overrides: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for seed in seeds:
            assert train_here(patch, place, *SHARED, f"seed={seed}", *overrides) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one variant with three seeds in `trained`, and of three seeds with a tiny learning rate in `still`."""
    place = workplace(tmp_path_factory.mktemp("verdicts"), rows=600)
    train(place, SEEDS[:3], *TRAINED)
    train(place, SEEDS[:3], "trainer.max_epochs=1", "optimizer.lr=1e-9", "output_root=still")
    return place


def read(folder: Path) -> list[FinishedRun]:
    runs, excluded = read_runs(find_run_folders([str(folder)]))
    assert not excluded
    return sorted(runs, key=lambda run: run.metrics["seed"])


def verdict(one: Sequence[FinishedRun], other: Sequence[FinishedRun], score: str = "mse") -> str:
    """Compare two groups of runs as if they were two variants; return the verdict on the worse one."""
    groups = {"one": one, "other": other}
    named = [
        replace(run, settings={**run.settings, "model.label": name})
        for name, runs in groups.items()
        for run in runs
    ]
    (task,) = group_into_tasks(named, score=score)
    return task.get_verdict(task.variants[-1])


@pytest.mark.long
def test_equal_variants_are_rarely_called_different(folder: Path) -> None:
    """Ten ways to split six seeds of one variant in two: at a level of 5%, more than one rejection is unlikely."""
    train(folder, SEEDS[3:], *TRAINED)
    runs = read(folder / "trained")
    splits = [
        (list(one), [run for run in runs if run not in one])
        for one in combinations(runs, 3)
        if runs[0] in one
    ]
    assert len(splits) == 10
    assert sum(verdict(one, other) == "worse" for one, other in splits) <= 1


@pytest.mark.parametrize("score", ["mse", "crps"])
def test_a_variant_that_did_not_learn_is_called_worse(folder: Path, score: str) -> None:
    runs, still = read(folder / "trained"), read(folder / "still")
    assert verdict(runs[:3], still, score) == "worse"
