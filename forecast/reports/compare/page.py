"""The comparison page: one HTML file with tables, charts and the chart library, which needs no network."""

import base64
import gzip
import secrets
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from forecast import __version__
from forecast.reports.colours import DARK, LIGHT
from forecast.reports.compare.chart_data import MAX_VARIABLES, make_chart_data, make_factor_data
from forecast.reports.compare.disagreement import make_disagreement_table
from forecast.reports.compare.factor_table import describe_factor, make_factor_table
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.findings import describe_results, describe_test
from forecast.reports.compare.html_tables import (
    make_cost_table,
    make_interval_table,
    make_overview_table,
    make_score_table,
    make_settings_table,
)
from forecast.reports.compare.number_format import find_date_format
from forecast.reports.compare.run_folders import ExcludedRun
from forecast.reports.compare.scaling import describe_crossovers, make_scaling_charts, measure_scaling
from forecast.reports.compare.task import Task
from forecast.system.formatting import plural

HERE = Path(__file__).parent
SCRIPTS = ("charts.js", "page.js")


def render_page(
    title: str, tasks: Sequence[Task], excluded: Sequence[ExcludedRun], factor: Factor | None = None
) -> str:
    """Return the page. Jinja escapes names and settings, in the HTML and in the embedded JSON."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("page.html").render(
        title=title,
        nonce=secrets.token_urlsafe(16),  # the browser runs only scripts with this nonce
        style=(HERE / "page.css").read_text(),
        script="\n".join((HERE / name).read_text() for name in SCRIPTS),
        plotly=pack_plotly(),
        loader=(HERE / "loader.js").read_text(),
        colours={"light": LIGHT, "dark": DARK},
        data=[make_chart_data(task, len(tasks)) | {"scaling": make_scaling_charts(task)} for task in tasks],
        tasks=[make_section(task) for task in tasks],
        factor=factor,
        factor_data=make_factor_data(factor),
        factor_results=describe_factor(factor) if factor else [],
        factor_table=make_factor_table(factor) if factor else None,
        overview=make_overview_table(tasks),
        max_variables=MAX_VARIABLES,
        runs=plural(sum(len(entry.runs) for task in tasks for entry in task.unmerged_variants), "run"),
        excluded=excluded,
        version=__version__,
        date=date.today().isoformat(),
    )


def pack_plotly() -> str:
    """The chart library, compressed and written in base 85, which `loader.js` decodes."""
    packed = base64.b85encode(gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)).decode()
    assert "<!--" not in packed, "it would hide the end of its element"
    return packed


def make_section(task: Task) -> dict[str, Any]:
    """Return the texts and tables of one task."""
    starts = pd.DatetimeIndex(task.first_run.windows["forecast_start"])
    first, last = starts.sort_values()[[0, -1]].strftime(find_date_format(starts.to_numpy()))
    folders = [
        (entry.name, run.metrics["seed"], run.folder.name)
        for entry in task.unmerged_variants
        for run in entry.runs
    ]
    tables = (make_score_table(task), make_cost_table(task), make_interval_table(task))
    return {
        "title": task.title,
        "facts": f"{plural(len(starts), 'test window')}, forecast starts from {first} to {last}; "
        f"{plural(len(task.unmerged_variants), 'variant')}, {plural(len(folders), 'run')}.",
        "results": describe_results(task),
        "tables": [table for table in tables if table],
        "disagreement": make_disagreement_table(task),
        "settings": make_settings_table(task) if len(task.unmerged_variants) > 1 else None,
        "shared": task.shared,
        "runs": folders,
        "test": describe_test(task),
        "crossovers": describe_crossovers(measure_scaling(task, "ms_per_window")),
        "knows_seeds": task.knows_seeds,
    }
