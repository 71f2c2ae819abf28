"""Runs that cannot be compared, with the text of each message."""

from pathlib import Path

import pytest

from forecast.reports.compare.run_folders import find_run_folders
from forecast.system.errors import ConfigError
from tests.support.refusals import Refusal

REFUSED = [
    Refusal("no such folder", "nowhere: no such folder; give run folders, sweep folders or globs such as 'runs/*'", ConfigError, lambda folder: find_run_folders([f"{folder}/nowhere"])),
    Refusal("a pattern of no folder", "nowhere/*: no such folder; give run folders, sweep folders or globs such as 'runs/*'", ConfigError, lambda folder: find_run_folders([f"{folder}/nowhere/*"])),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
