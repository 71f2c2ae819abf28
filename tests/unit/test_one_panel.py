"""Outside of forecast/data, few modules ask whether the data are one table, many series or a store."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "forecast"
QUESTIONS = re.compile(r"\b(has_ids|TABLE_ID|is_on_disk|STORE)\b|\blen\((self\.)?(data\.)?panel\) [=!<>]")

REASONS = {
    "inference/forecast.py": "pictures show the variables of a table, and one variable of many series",
    "inference/model.py": "states whether the series of the training data have ids",
    "inference/store_future.py": "rows cannot be appended to a store",
    "inference/trained_rows.py": "the splits of several series may lie on different dates",
    "reports/series.py": "a table has no scores by series beside its own",
    "tools/check/diagnosis.py": "the report on a table describes no series",
    "tools/export/difference.py": "an exported table holds its scale; many series need theirs as inputs",
    "tools/export/metadata.py": "an exported table holds its scale; many series need theirs as inputs",
    "tools/serve/layout.py": "a request for a table has no ids",
}
"""Why a module asks."""


def test_every_module_that_asks_has_a_reason() -> None:
    modules = {file.relative_to(PACKAGE).as_posix(): file for file in PACKAGE.rglob("*.py")}
    asking = {name for name, file in modules.items() if QUESTIONS.search(file.read_text(encoding="utf-8"))}
    assert {name for name in asking if not name.startswith("data/")} == set(REASONS)
