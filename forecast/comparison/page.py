"""One HTML file with everything in it: tables, data, charts and the library that draws them; it needs no network."""

import secrets
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from forecast import __version__
from forecast.comparison import charts, sheets
from forecast.comparison.runs import LeftOut
from forecast.comparison.tables import TIED, UNTOLD, counted, date_format, number, probability, verdict
from forecast.comparison.tasks import Task

HERE = Path(__file__).parent
FEW = 8  # degrees of freedom below which the test finds large differences only


def render(title: str, tasks: Sequence[Task], left_out: Sequence[LeftOut]) -> str:
    """The page. Names and settings are text wherever they stand: Jinja escapes them in HTML and in the data."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("page.html").render(
        title=title,
        nonce=secrets.token_urlsafe(16),  # scripts without it are not run
        style=(HERE / "page.css").read_text(),
        script=(HERE / "page.js").read_text(),
        plotly=get_plotlyjs(),
        data=[charts.data(task, len(tasks)) for task in tasks],
        tasks=[section(task) for task in tasks],
        overview=sheets.overview(tasks),
        runs=counted(sum(len(entry.runs) for task in tasks for entry in task.variants), "run"),
        left_out=left_out,
        version=__version__,
        date=date.today().isoformat(),
    )


def section(task: Task) -> dict[str, Any]:
    """What the page says about one task."""
    starts = pd.DatetimeIndex(task.first_run.windows["forecast_start"])
    first, last = starts.sort_values()[[0, -1]].strftime(date_format(starts.to_numpy()))
    folders = [
        (entry.name, run.metrics["seed"], run.folder.name) for entry in task.variants for run in entry.runs
    ]
    return {
        "title": task.title,
        "facts": f"{counted(len(starts), 'test window')}, forecast from {first} to {last}; "
        f"{counted(len(folders), 'run')} of {counted(len(task.variants), 'variant')}.",
        "findings": findings(task),
        "sheets": [s for s in (sheets.scores(task), sheets.costs(task), sheets.intervals(task)) if s],
        "settings": sheets.settings(task) if len(task.variants) > 1 else None,
        "shared": task.shared,
        "runs": folders,
        "test": test_note(task),
    }


def findings(task: Task) -> list[str]:
    """The answer in words: which variant, how sure, and whether any model is worth it."""
    best, rival = task.best, task.best_baseline
    said = []
    if len(task.variants) > 1:
        said.append(f"{best.name} has the lowest MSE, {number(*best.spread('mse'))}.")
        verdicts = {entry.name: verdict(task, entry) for entry in task.variants[1:]}
        tied = [name for name, what in verdicts.items() if what == TIED]
        untold = [name for name, what in verdicts.items() if what == UNTOLD]
        worse = sum(what == "worse" for what in verdicts.values())
        if tied:
            p = max(task.differences[name].adjusted for name in tied)
            said.append(f"Not told apart from it: {listed(tied)} (p up to {probability(p)}).")
        if untold:
            said.append(f"Too few test windows to tell it from: {listed(untold)}.")
        if worse:
            said.append(f"Worse than it, beyond chance: {counted(worse, 'variant')}.")
    winners = sum(entry.mean("mse") < rival.mean("mse") for entry in task.variants)
    rule = f"the best baseline, {rival.name} (MSE {number(rival.mean('mse'))})"
    if winners == 0:
        loser = "Every variant is" if len(task.variants) > 1 else f"{best.name} is"
        said.append(f"{loser} worse than {rule}: use that.")
    elif winners == len(task.variants):
        said.append(f"{'Every variant' if winners > 1 else best.name} beats {rule}.")
    else:
        said.append(f"{winners} of {counted(len(task.variants), 'variant')} beat {rule}.")
    if alone := task.maps_alone:
        said.append(alone)
    return said


def listed(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def test_note(task: Task) -> str:
    """How the significance was tested."""
    if len(task.variants) < 2:
        return ""
    known = task.differences[task.variants[1].name]
    if known.freedom == 0:
        return "There are fewer than two horizons of test windows: too few for a test."
    terms, degrees = counted(known.freedom, "cosine term"), counted(known.freedom, "degree")
    many = "unique_id" in task.first_run.windows
    what = "every date forecast first, summed over its series" if many else "every test window"
    share = f" in all but one of their {task.pred_len} steps" if task.overlap == task.pred_len else ""
    alike = f"Windows overlap{share}, so the" if task.overlap > 1 else "The"
    horizons = counted(len(task.best.chain) // task.overlap, "horizon")
    weak = f"The test windows span only {horizons}: only very large differences can show. "
    return (
        f"{weak if known.freedom < FEW else ''}"
        f"Each variant's squared error of {what}, the mean over its seeds, less the best variant's: a "
        f"Diebold-Mariano test, two-sided. {alike} "
        f"variance of the mean difference is taken from its slow swings alone, {terms} "
        f"(Lazarus et al. 2018; Coroneo and Iacone 2020), against Student's t with {degrees} of freedom. "
        f"p-values are multiplied by the number of comparisons (Bonferroni: {len(task.variants) - 1} of variants, "
        f"{len(task.baselines)} of baselines). The test is about these trained models on these windows; the deviation "
        "over seeds says what training anew would change."
    )
