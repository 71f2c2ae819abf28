"""The page docs/results.md: the tables of docs/results/*.json, and the names of the tables that have not run."""

import json
from pathlib import Path
from typing import Any

from forecast.system.files import atomic_file
from results import pictures
from results.cells import TABLES
from results.progress import duration
from results.result import Result, score
from results.sections import LAYOUTS, by_horizon
from results.store import Store
from tables import markdown_table

HEAD = """\
# Results

This page contains test scores on values scaled by the training rows: mean ± sample standard deviation over the seeds.
Each table has a command that runs its cells and writes this page. An interrupted command is resumed by the same
command. A cell is one run of `python -m forecast.train`. The files in `docs/results/` contain its overrides,
scores and costs, and for newer cells the commit. In the cells of version 0.1.0 the seasonal naive repeats one day, in
newer ones the better of a day and a week, by validation. The machines are listed [at the end](#machines).

Three other pages rank models of this program among published ones: tasks of fev-bench
[with covariates](benchmarks/fev_bench.md) and [of tables](benchmarks/fev_tables.md), and
[GIFT-Eval](benchmarks/gift_eval.md).
"""
LINEAR = """\
The linear baseline is a least-squares model from the window to the horizon, fitted in the same runs.
"""
ASKED = f"""\
The default model (residual Informer) with 720 input steps forecasts all columns from all columns. The columns of the
tables are horizons. Bold: the best attention type.
{LINEAR}
A window has 30 tokens, patches of 24 steps. With so few tokens, all attention types compute nearly the same function:
ProbSparse selects 20 of the 30 queries, and Nyström with 32 landmarks is exact softmax plus a convolution. Tables
with more tokens are [longer windows](#longer-windows) and [recall](#recall-over-thousands-of-steps).
"""
DROPPED = """\
Rows in italics are the published scores of the OpenTS leaderboard (Qiu et al. 2024, TFB), which ran the code of each
paper anew and counts every test window; the length of the lookback window is the best of several on the test rows.
The tables of several papers, among them PatchTST and TimeMixer, dropped the last incomplete batch of test windows and
are not comparable. The scores here count every window. The rule that selects the linear model was
developed on other data, but the ETT test errors of two rules were visible at the time
([details](selection.md#decisions-for-which-test-errors-were-visible)).
"""
SUB_HOURLY = f"""\
`model=patch_encoder` and the input length that `forecast.check` suggests for steps below an hour: five days, at most
720 steps. Each column is forecast from its own past. The columns of the tables are horizons. Bold: the lowest error
of a trained model. `model=mlp` reads the same windows without attention. A window has 20 or 30 tokens, for which all
attention types compute nearly the same function. The input length was selected by validation MSE at 96 steps
([evidence](#sizes-and-input-lengths)).
{LINEAR}"""
WEATHER = f"""\
{SUB_HOURLY}
Published scores are on another scale: −9999, which stands for 81 missing values in the training rows of three of the 21
columns, is a number there, and the scaled errors of these columns nearly vanish. The first table divides the errors of
the same forecasts by the published scales; these models never read −9999 as a number. The file is not downloaded: put
`weather.csv` into the folder of `--root`.
"""
LOAD = f"""\
The default model on synthetic data sets. `sample`: 336 input steps, all columns from all columns. `load`: 504 input
steps, the load from itself, with or without the public holidays of Turkey. The columns are horizons, each with the
difference from the linear baseline. Bold: the best attention type. Windows have 14 and 21 tokens, for which all
attention types compute nearly the same function.
{LINEAR}"""
WINDOWS = """\
The default model with increasing window length, one seed: all columns of ETT, and `load` from itself with holidays.
`etth1-joint` has one token per variable and patch (`model.tokens=joint`), which gives 98 to 840 tokens; the other
tables have 14 to 120. Bold: the best attention type at a length. The linear baseline reads the same window. Seconds
are those of a whole run, beside another run and, at times, other work on the same machine.
"""
RECALL = """\
The default model without its linear model on the synthetic data set `recall` ([memory.md](memory.md)), one week of
half hours ahead, with a time embedding of every step (`model.time_stride=1`). Half of the horizon depends on steps
that lie 1,008 to 2,688 steps earlier. Bold: the best attention type at a length. Each attention type is used in all
slots, including cross-attention, except Fastformer, which has no cross-attention and uses full attention there.
Errors are in original units. The linear baseline reads the same window. The runs of `gated_delta` shared the machine
with other work, so that their seconds are not comparable.
"""
ABLATION = """\
Test MSE of the default model with full attention, and with one setting changed. The header gives the data set and the
horizon.
"""
COVARIATES = """\
One day ahead from 168 hours, with and without two columns that are known for the next day: forecasts of load,
generation or wind power beside five electricity prices (`epf`, Lago et al. 2021; 7:1:2 of the rows), and the measured
temperature beside a load (GEFCom2014-E, Hong et al. 2016), which is not known in practice. Every test window is
counted; one seed, full attention. The number of the tested epoch is in parentheses; 0: the linear model alone.
`model=mlp` is a perceptron that corrects the same linear model ([residual.md](residual.md)). The rule that selects the
settings of the linear model was developed when test errors on the prices were visible; the windows of an epoch were
chosen by validation errors. The files are not downloaded: put `epf/NP.csv`, ..., and `GEFCom2014-E.csv` into the folder
of `--root`. [LightGBM and models of neuralforecast](benchmarks/peers-accuracy.md) are trained on the same rows.
"""
FLAT = """\
Columns that are forecast from their own past, every 15 or 10 minutes: one seed, 336 steps read, 96 forecast. The number
of the tested epoch is in parentheses; 0: the linear model alone. `model=patch_encoder` is described in
[residual.md](residual.md#an-encoder-with-a-flat-head-modelpatch_encoder). Its settings were selected by validation MSE.
Seconds are those of a whole run on one thread, beside other work; those of `axes` are of another machine.

Published for ETTm1, 96 steps: PatchTST 0.289, DUET 0.279 (complete windows; the length of the window was selected on
test rows). Published scores of weather are on another scale: −9999, which stands for 81 missing values in the training
rows of three of its 21 columns, is a number there, and the scaled errors of these columns nearly vanish. The file is
not downloaded: put `weather.csv` into the folder of `--root`.
"""
STRIDE_NOTE = """\
Validation errors of the default model with full attention. In the lookback window, each step has its own time
embedding (`model.time_stride=1`), 6 steps share one, or the 24 steps of a patch do. The shared embedding has the
calendar features of the middle step and the means of the covariates. Each step of the horizon has its own.
"""
SIZE_NOTE = """\
Validation errors of `model=patch_encoder model.tokens=independent` and one changed setting, 96 steps ahead, two seeds
or one. `size=base` has twice the width. Because of these errors, `forecast.check` suggests five days as input, at most
720 steps, and the default size stays. Test errors were not looked at.
"""
LOSS_NOTE = """\
`model=patch_encoder` with full attention (two seeds) and `model=mlp` (one seed), trained with each loss on the windows
of [ETT, every 15 minutes](#ett-every-15-minutes) and [weather](#weather-every-10-minutes). The epoch is selected by
validation MSE in every run. Weather is on the scale on which −9999 is a missing value.

Validation errors do not choose between the losses: on ETTm1, `mae` and `huber` are lower up to 192 steps and higher
at 720, with equal means over the horizons; on weather, they are lower in some cells and higher in others. The default
stays `loss=mse`. The test errors of `mae` are lower in most cells of weather and, for the perceptron, of ETTm1; they
were used for no choice. Equal errors in a column are those of the linear model alone, which 38 of the 96 runs keep:
nearly all of ETTm2, and 7 others, most of them at 720 steps.
"""
AXES_NOTE = """\
Weather, 96 steps ahead from 720: `model=patch_encoder model.tokens=axes` with one attention type over the patches of a
variable (`attention=`) and another one over the variables of a patch (`variables=`). With `none`, no token reads
another along that axis. Validation MSE, and test MSE on the published scale; two seeds. Attention over variables does
not pay here: the lowest errors are without it, and the differences between the attention types are smaller than those
between seeds.
"""
PAPER = """\
The original Informer with the sizes and the schedule of the paper and ProbSparse attention. Published: the revised
tables of the authors (Zhou et al. 2021). Ratio: MSE here divided by the published MSE. ETTh1 S, with 720 input hours,
was trained in bfloat16.
"""
AUTHORS = """\
On etth2 M 48, the error here is higher than the published one. The code of the authors, run by
`scripts/authors_informer`, has an error of the same size. The epoch with the lowest validation MSE is tested.
"""

TITLES = {
    "ett": "ETT, hourly",
    "load": "Data that depend on the calendar",
    "windows": "Longer windows",
    "recall": "Recall over thousands of steps",
    "ablation": "Contribution of each component",
    "covariates": "Future covariates",
    "flat": "A flat head",
    "strides": "Time features of the past",
    "sizes": "Sizes and input lengths",
    "losses": "The loss of training",
    "axes": "Attention over time and over variables",
    "informer2020": "Settings of the Informer paper",
    "ettm": "ETT, every 15 minutes",
    "electricity": "Electricity, 321 clients",
    "weather": "Weather, every 10 minutes",
}
NOTES = {
    **dict.fromkeys(("ett", "electricity"), ASKED),
    "ettm": SUB_HOURLY,
    "weather": WEATHER,
    "load": LOAD,
    "windows": WINDOWS,
    "recall": RECALL,
    "ablation": ABLATION,
    "covariates": COVARIATES,
    "flat": FLAT,
    "strides": STRIDE_NOTE,
    "sizes": SIZE_NOTE,
    "losses": LOSS_NOTE,
    "axes": AXES_NOTE,
    "informer2020": PAPER,
}
AFTER = dict.fromkeys(("ett", "ettm", "electricity", "weather"), DROPPED)


def save(docs: Path) -> None:
    """Write results.md and its pictures, each atomically."""
    for table in pictures.PICTURES:
        result = Result.of(TABLES[table], Store(docs / "results", table))
        if result.rows:
            pictures.save(docs / "results", table, result)
    with atomic_file(docs / "results.md") as temporary:
        temporary.write_text(page(docs / "results"))


def page(folder: Path) -> str:
    """The page made from the JSON files in `folder`; a table without a file is listed as not run."""
    stores = {table: Store(folder, table) for table in TABLES}
    results = {table: Result.of(TABLES[table], store) for table, store in stores.items()}
    seconds = {table: sum(row["seconds"] for row in result.rows) for table, result in results.items()}
    overview = [
        [
            f"[{TITLES[table]}](#{anchor(TITLES[table])})", f"`scripts/reproduce {table}`",
            f"{len(result.rows)} of {len(result.pairs)}", duration(seconds[table]) if result.rows else "–",
        ]
        for table, result in results.items()
    ]  # fmt: skip
    lines = [HEAD, *markdown_table(["table", "command", "cells run", "computing"], overview), ""]
    if any(seconds.values()):
        lines += [f"Total: {duration(sum(seconds.values()))} of computing.", ""]
    for table, result in results.items():
        lines += [f"## {TITLES[table]}", ""]
        if result.rows:
            lines += [NOTES[table], *picture(table), *LAYOUTS.get(table, by_horizon)(result)]
            lines += [AFTER[table]] if table in AFTER else []
            lines += by_the_authors(folder) if table == "informer2020" else []
        else:
            lines += [f"Not run yet: `scripts/reproduce {table}`.", ""]
    lines += ["## Machines", "", *ran_on(list(stores.values()))]
    return "\n".join(lines).rstrip("\n") + "\n"


def by_the_authors(folder: Path) -> list[str]:
    """The results of `scripts/authors_informer`: one row per run and epoch of the authors' code."""
    file = folder / "authors.json"
    if not file.exists():
        return []
    rows = [
        [name, f"{epoch['epoch']}", score(epoch["val_mse"]), score(epoch["test_mse"])]
        for name, epochs in json.loads(file.read_text()).items()
        for epoch in epochs
    ]
    header = ["code of the authors on", "epoch", "validation MSE", "test MSE"]
    return [AUTHORS, *markdown_table(header, rows), ""]


def picture(table: str) -> list[str]:
    return [f"![Picture of the table below](results/{table}.png)", ""] if table in pictures.PICTURES else []


def ran_on(stores: list[Store]) -> list[str]:
    """One line per machine, with the tables that ran there."""
    tables: dict[str, list[str]] = {}
    for store in stores:
        for machine in store.content["machines"]:
            tables.setdefault(described(machine), []).append(store.table)
    return [*(f"- {', '.join(names)}: {text}" for text, names in tables.items()), ""]


def described(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
    return f"{machine['device']}, {threads} per run, {machine['system']}; {versions}"


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub forms it."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")
