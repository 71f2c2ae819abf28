"""Outside of forecast/data, few modules ask whether the data are one table, many series or a store."""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "forecast"
QUESTIONS = re.compile(r"\b(has_ids|TABLE_ID|is_on_disk|STORE)\b|\blen\((self\.)?(data\.)?panel\) [=!<>]")
CLASSES = re.compile(
    r"\b(isinstance|issubclass)\([^:]*(Source|StoredValues|Rows)\b|\btype\([\w.]*source\)|\bcase \w+Source\b"
)

REASONS = {
    "api.py": "the dates of a table are in the index of a frame of pandas, and in a column of other frames",
    "inference/model_data.py": "whether the series of training have ids; rows cannot be appended to a store",
    "inference/origins.py": "the splits of several series may lie on different dates",
    "linear/covariate_steps.py": "the gaps of rows on disk are not searched",
    "reports/scores.py": "a table has no scores by series beside its own",
    "tools/check/report.py": "the report on a table describes no series",
    "reports/plotted_forecast.py": "pictures show the variables of a table, and one variable of many series",
}
"""Why a module asks."""


def test_every_module_that_asks_has_a_reason() -> None:
    assert find_modules(QUESTIONS) == set(REASONS)


def test_no_module_asks_for_the_class_of_a_source() -> None:
    assert find_modules(CLASSES) == set()


@pytest.mark.parametrize(
    "line",
    [
        "if isinstance(data.source, TableSource):",
        "if not isinstance(source, (StoreSource, LongSource)):",
        "if issubclass(cls, FileSource):",
        "if type(data.source) is StoreSource:",
        "case StoreSource():",
        "assert isinstance(panel.values, StoredValues)",
        "if isinstance(windows.values, TensorRows):",
    ],
)
def test_questions_for_the_class_of_a_source_are_found(line: str) -> None:
    assert CLASSES.search(line)


def find_modules(questions: re.Pattern[str]) -> set[str]:
    """The modules outside of forecast/data that ask one of these questions."""
    modules = {file.relative_to(PACKAGE).as_posix(): file for file in PACKAGE.rglob("*.py")}
    asking = {name for name, file in modules.items() if questions.search(file.read_text(encoding="utf-8"))}
    return {name for name in asking if not name.startswith("data/")}
