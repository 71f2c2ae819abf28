"""Hand-written lists of all attention types, scores or baselines, which readers take for complete, leave none out."""

import re
from pathlib import Path

import pytest

from forecast.evaluation.scores import BASELINES, SCORES

ROOT = Path(__file__).parents[2]
TYPES = sorted(path.stem for path in ROOT.glob("conf/attention/*.yaml"))
LISTS = [
    ("README.md", r"^\| `NAME` \|", TYPES),
    ("scripts/wandb_sweep.yaml", r"^  attention: .*\bNAME\b", sorted({*TYPES} - {"none", "uniform"})),
    ("README.md", r"^\| `metrics\.json` \|.*\bNAME\b", SCORES),
    ("docs/forecasting.md", r"forecast\.predict .*baseline=.*\bNAME\b", [*BASELINES]),
]
"""File, pattern of a line, and the names that it must match in place of NAME."""


@pytest.mark.parametrize(
    ("file", "pattern", "names"), LISTS, ids=lambda given: given if isinstance(given, str) else ""
)
def test_no_name_is_left_out(file: str, pattern: str, names: list[str]) -> None:
    text = (ROOT / file).read_text()
    assert names
    assert [name for name in names if not re.search(pattern.replace("NAME", name), text, re.MULTILINE)] == []
