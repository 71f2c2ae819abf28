"""Levels of intervals that are refused or left out, with the text of each message."""

from pathlib import Path

import pytest
import torch

from forecast.evaluation.conformal import Calibration, calibrated_levels
from forecast.evaluation.scores import parse_levels
from forecast.system.errors import ConfigError
from tests.support.refusals import Refusal


def levels(given: object, says: str) -> Refusal:
    return Refusal(f"levels={given}", says, ConfigError, lambda folder: parse_levels(given))


def few_windows(folder: Path) -> None:
    calibrated_levels(Calibration.fit(torch.randn(9, 2, 1), horizons=5), [80, 95])


REFUSED = [
    levels([0.9], "levels=[0.9]: 0.9 is not a percentage from 1 to below 100, such as 90"),
    levels([100], "levels=[100]: 100 is not a percentage from 1 to below 100, such as 90"),
    levels(80, "levels=80: write a list, such as levels=[80,95], or levels=[] for none"),
    levels("80", "levels=80: write a list, such as levels=[80,95], or levels=[] for none"),
    Refusal("too few validation windows", "levels: 95% needs 20 validation windows to calibrate on, and there are 9: left out; a larger validation part (data.split) has more", UserWarning, few_windows),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
