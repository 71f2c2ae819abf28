"""Runs that cannot be compared, with the text of each message."""

from pathlib import Path

import pytest

from forecast.reports.compare.factors import find_factor
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.run_folders import find_run_folders, read_runs
from forecast.system.errors import ConfigError
from tests.support.refusals import Refusal
from tests.support.synthetic_runs import configuration, make_run


def one_comparison(folder: Path) -> None:
    """An average over the only two runs."""
    for attention in ("full", "linear"):
        make_run(folder / attention, configuration(f"attention={attention}"), mse=0.4)
    found, _ = read_runs(find_run_folders([str(folder)]))
    find_factor(group_into_tasks(found), "attention", required=True)


REFUSED = [
    Refusal("no such folder", "nowhere: no such folder; give run folders, sweep folders or globs such as 'runs/*'", ConfigError, lambda folder: find_run_folders([f"{folder}/nowhere"])),
    Refusal("a pattern of no folder", "nowhere/*: no such folder; give run folders, sweep folders or globs such as 'runs/*'", ConfigError, lambda folder: find_run_folders([f"{folder}/nowhere/*"])),
    Refusal("an average of one comparison", "by=attention: an average needs two comparisons with two values in common; of the values full, linear, 1 comparison has full, linear in common", ConfigError, one_comparison),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
