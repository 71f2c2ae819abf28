"""docs/results.md: every table of docs/results/*.json, and what has not run."""

import json
from pathlib import Path
from typing import Any

from forecast.files import whole_file
from results import pictures
from results.cells import TABLES
from results.progress import duration
from results.result import Result, score
from results.sections import LAYOUTS, by_horizon
from results.store import Store
from tables import markdown_table

HEAD = """\
# Results

Test scores of this project's models, on values scaled by the training rows: mean ± sample deviation over the seeds. One
command runs a table, cell by cell, and writes this page; stopped, it goes on where it was. A cell is one run of
`python -m forecast.train`; its overrides, scores and costs, and of newer ones the commit, lie in [results/](results/).
"""
LINEAR = """\
The linear baseline is one least-squares map from the window to the horizon, fitted in the same runs.
"""
ASKED = f"""\
Residual Informer, 720 steps read, all columns from all; MSE by steps ahead. Bold: the best kind.
{LINEAR}
A window is 30 tokens here, patches of 24 steps. Of so few ProbSparse keeps 20 queries, and Nyström's 32 landmarks are
softmax itself beside a convolution: the kinds are close to one function. Windows of many tokens are in
[longer windows](#longer-windows) and [recall](#what-lies-thousands-of-steps-back).
"""
DROPPED = """\
Rows in italics are the papers' own figures, each with the window that the paper chose. Those of several papers were
computed with the last incomplete batch of test windows dropped; ours count every window. How the linear map is chosen
was settled on other loads, with what two rules make of ETT's test rows in sight ([residual.md](residual.md)).
"""
LOAD = f"""\
Residual Informer on generated sets: `sample`, 336 steps read, all columns from all; `load`, 504 steps read, the load
from itself, told of Turkey's holidays or not. MSE by steps ahead, and how far below (−) or above (+) the linear
baseline it lies. Bold: the best kind, of kinds that are close to one function on windows of 14 and 21 tokens.
{LINEAR}"""
WINDOWS = """\
Residual Informer reading ever more of the past, one seed: all columns of ETT; the load from itself, told of holidays.
`etth1-joint` has a token for each variable and patch (`model.tokens=joint`): 98 to 840 of them, elsewhere 14 to 120.
Bold: the best kind at a length. The linear baseline reads as much. Seconds: a whole run, beside another one.
"""
RECALL = """\
Residual Informer without its linear map on the generated set `recall` ([memory.md](memory.md)), a week of half
hours ahead: what half of the horizon depends on lies 1,008 to 2,688 steps before it. Bold: the best kind at a length.
Each kind serves every slot that it can, cross-attention too; Fastformer cannot, and has softmax there. Errors are in
the set's own units, those of the levels to be recalled. The linear baseline reads as much as the model.
"""
ABLATION = """\
Residual Informer with softmax attention, and its test MSE with one thing changed; steps ahead beside the data set.
"""
PAPER = """\
The original model with the paper's sizes and schedule, ProbSparse attention. Published: its authors' revised tables
(Zhou et al. 2021). Ratio: our MSE divided by theirs. ETTh1 S, which reads 720 hours, in bfloat16.
"""
AUTHORS = """\
Where ours errs more than was published, on etth2 M 48, the authors' own code does too, run here by
`scripts/authors_informer`: the epoch that validation chooses is the one that is tested.
"""

TITLES = {
    "ett": "ETT, hourly",
    "load": "Where the calendar says something",
    "windows": "Longer windows",
    "recall": "What lies thousands of steps back",
    "ablation": "What each part is worth",
    "informer2020": "The Informer paper's settings",
    "ettm": "ETT, every 15 minutes",
    "electricity": "Electricity, 321 clients",
    "weather": "Weather, every 10 minutes",
}
NOTES = {
    **dict.fromkeys(("ett", "ettm", "electricity", "weather"), ASKED),
    "load": LOAD,
    "windows": WINDOWS,
    "recall": RECALL,
    "ablation": ABLATION,
    "informer2020": PAPER,
}
AFTER = dict.fromkeys(("ett", "ettm", "electricity"), DROPPED)


def save(docs: Path) -> None:
    """results.md and its pictures, each whole or not at all."""
    for table in pictures.PICTURES:
        result = Result.of(TABLES[table], Store(docs / "results", table))
        if result.rows:
            pictures.save(docs / "results", table, result)
    with whole_file(docs / "results.md") as temporary:
        temporary.write_text(page(docs / "results"))


def page(folder: Path) -> str:
    """From the JSON files in `folder`; tables without one are named as not run."""
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
        lines += [f"In all {duration(sum(seconds.values()))} of computing.", ""]
        lines += ran_on(list(stores.values()))
    for table, result in results.items():
        lines += [f"## {TITLES[table]}", ""]
        if result.rows:
            lines += [NOTES[table], *picture(table), *LAYOUTS.get(table, by_horizon)(result)]
            lines += [AFTER[table]] if table in AFTER else []
            lines += by_the_authors(folder) if table == "informer2020" else []
        else:
            lines += [f"Not run yet: `scripts/reproduce {table}`.", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def by_the_authors(folder: Path) -> list[str]:
    """What `scripts/authors_informer` found: a row a run of the authors' own code and epoch."""
    file = folder / "authors.json"
    if not file.exists():
        return []
    rows = [
        [name, f"{epoch['epoch']}", score(epoch["val_mse"]), score(epoch["test_mse"])]
        for name, epochs in json.loads(file.read_text()).items()
        for epoch in epochs
    ]
    header = ["the authors' code on", "epoch", "validation MSE", "test MSE"]
    return [AUTHORS, *markdown_table(header, rows), ""]


def picture(table: str) -> list[str]:
    return [f"![The table below, drawn](results/{table}.png)", ""] if table in pictures.PICTURES else []


def ran_on(stores: list[Store]) -> list[str]:
    """A line a machine, with the tables that ran there."""
    tables: dict[str, list[str]] = {}
    for store in stores:
        for machine in store.content["machines"]:
            tables.setdefault(described(machine), []).append(store.table)
    return [*(f"- {', '.join(names)}: {text}" for text, names in tables.items()), ""]


def described(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
    return f"{machine['device']}, {threads} a run, {machine['system']}; {versions}"


def anchor(title: str) -> str:
    """As GitHub makes it."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")
