"""Names that carry script, formulas or markup go through every command, and are text wherever they are shown."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.browser import opened
from tests.support.commands import answer, only, train_here
from tests.support.csv_files import write_csv
from tests.support.synthetic_runs import configuration, make_run

NAMES = [
    "<script>window.attacked=1</script>",
    "</script><script>window.attacked=1</script>",
    '"><img src=x onerror="window.attacked=1">',
    "<svg onload=window.attacked=1>",
    '<a href="javascript:window.attacked=1">a</a>',
    "javascript:window.attacked=1",
    "<b>bold</b><br>&lt;i&gt;",
    "%{x}<extra>{{ 7*7 }}${run_name}",
    "$\\frac{1}{$",
    "$x^$",
    "=cmd|' /C calc'!A0",
    "température, °C",
]
MAY_NOT = {"%{x}<extra>{{ 7*7 }}${run_name}"}  # no checkpoint may hold an interpolation
COLUMNS = [name for name in NAMES if name not in MAY_NOT]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run trained on columns of these names."""
    folder = tmp_path_factory.mktemp("names")
    write_csv(folder / "load.csv", rows=220)
    frame = pd.read_csv(folder / "load.csv", index_col="date")
    for number, name in enumerate(COLUMNS):
        frame[name] = frame["load"] + number
    frame.to_csv(folder / "load.csv")
    with pytest.MonkeyPatch.context() as patch:
        assert train_here(patch, folder, "trainer.max_epochs=1", "logger=[]", "attention=linear") == 0
    return folder


def quiet(driver: Any, page: Path) -> None:
    """Nothing ran, nothing was asked for, nothing was complained about; with the page's own rules and without."""
    bare = page.with_name("bare.html")
    bare.write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", page.read_text("utf-8")), "utf-8"
    )
    for path in (page, bare):
        driver.get_log("browser")
        driver.get(path.as_uri())
        ready = (
            "return !document.querySelector('figure[data-chart]') || document.documentElement.dataset.ready"
        )
        while not driver.execute_script(ready):
            pass
        driver.execute_script(
            "document.querySelectorAll('.js-plotly-plot').forEach((plot) =>"
            " plot.data.forEach((_, i) => Plotly.Fx.hover(plot, [{curveNumber: i, pointNumber: 0}])));"
            "document.querySelectorAll('button, summary').forEach((part) => part.click())"
        )
        assert driver.execute_script("return window.attacked") is None
        assert (
            driver.execute_script("return document.querySelectorAll('svg a, a[href^=javascript]').length")
            == 0
        )
        assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


@pytest.mark.long
def test_every_command_takes_them(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = only(place, "runs/*")
    checkpoint = f"checkpoint={run}"
    assert answer(monkeypatch, "predict", place, checkpoint, f"output={tmp_path}/next.csv") == 0
    assert set(COLUMNS) <= set(pd.read_csv(tmp_path / "next.csv").columns)
    assert answer(monkeypatch, "check", place, "data.path=load.csv", f"output={tmp_path}/check.png") == 0
    assert answer(monkeypatch, "explain", place, checkpoint, f"output={tmp_path}/why") == 0
    assert {path.name for path in run.glob("*.png")} == {"forecasts.png", "error_by_step.png"}


@pytest.mark.long
def test_the_page_of_a_comparison(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = configuration("attention=full")
    for number, name in enumerate(NAMES[:6]):
        evil = {**config, "loss": name, "model": {**config["model"]}}
        evil["model"]["attention"] = {**config["model"]["attention"], "name": name}
        folder = tmp_path / "runs" / f"{number}{name.replace('/', '')}"
        make_run(folder, evil, mse=0.5 + 0.01 * number, variables=NAMES, attention=name, seed=name)
    failed = make_run(tmp_path / "runs" / "failed<b>", config, mse=0.5)
    (failed / "metrics.json").unlink()
    (failed / "error.txt").write_text(NAMES[2])
    assert answer(monkeypatch, "compare", tmp_path, "runs=[runs]", f"title='{NAMES[0]}'") == 0
    page = tmp_path / "comparison.html"
    with opened(page, tmp_path / "profile") as driver:
        quiet(driver, page)
        driver.get(page.as_uri())
        options = driver.execute_script(
            "return [...document.querySelectorAll('select[data-choice=variable] option')].map((o) => o.textContent)"
        )
        assert options == NAMES
        assert driver.title == NAMES[0]
        assert NAMES[2] in driver.execute_script("return document.body.textContent")


def test_no_name_is_a_formula_in_the_table_of_a_comparison(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What others called their runs is shown as text in a spreadsheet; numbers stay numbers."""
    for number, name in enumerate(("=1+1", "@x", "-2", "plain")):
        config = configuration("attention=full")
        config["model"]["attention"]["name"] = name
        make_run(tmp_path / "runs" / f"run{name}", config, mse=0.5 + number, attention=name)
    assert answer(monkeypatch, "compare", tmp_path, "runs=[runs]") == 0
    table = pd.read_csv(tmp_path / "comparison.csv")
    assert {"'=1+1", "'@x", "'-2", "plain"} <= set(table["name"])
    assert table["skill"].dtype == float
