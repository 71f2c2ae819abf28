"""Runs that cannot be compared, with the text of each message."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forecast.reports.compare.factors import find_factor
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.system.errors import ConfigError
from tests.support.refusals import Refusal
from tests.support.synthetic_runs import configuration, make_run


def average_of_one(name: str) -> Callable[[Path], object]:
    """An average over the only two runs, of one comparison."""

    def call(folder: Path) -> object:
        for attention in ("full", "linear"):
            make_run(folder / attention, configuration(f"attention={attention}"), mse=0.4)
        tasks = group_into_tasks(read_runs(find_run_folders([str(folder)]))[0])
        assert find_factor(tasks, name) is None
        return find_factor(tasks, name, required=True)

    return call


REFUSED = [
    Refusal("no such folder", "nowhere: no such folder; give run folders, sweep folders or globs such as 'runs/*'", ConfigError, lambda folder: find_run_folders([f"{folder}/nowhere"])),
    Refusal("a pattern of no folder", "nowhere/*: no such folder; give run folders, sweep folders or globs such as 'runs/*'", ConfigError, lambda folder: find_run_folders([f"{folder}/nowhere/*"])),
    Refusal("an average of one comparison", "by=attention: an average needs two comparisons with two values in common; of the values full, linear, 1 comparison has full, linear in common", ConfigError, average_of_one("attention")),
    Refusal("an average of no comparison", "by=patch_len: no variants differ in this setting alone; they differ in attention", ConfigError, average_of_one("patch_len")),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
