"""Numbers of the attention layers of runs, which `forecast.explain runs=` saves into their folders, as a table."""

import math
from collections.abc import Iterator

import pandas as pd

from forecast.reports.compare.html_tables import VARIANT, Cell, HtmlTable
from forecast.reports.compare.scores import Column
from forecast.reports.compare.task import Task
from forecast.runs.summary import mean_and_std

LAYERS_FILE = "attention_layers.csv"
"""A file of a run folder: one row for each layer, map and number."""

ENTROPY, UNEVEN, SOFTMAX, RECENT = "entropy", "from_uniform", "from_softmax", "last_season"

NUMBERS = (
    Column(ENTROPY, "entropy", "mean entropy of a row of weights, in percent of uniform weights", "neither"),
    Column(UNEVEN, "differs from uniform", "weight that differs from uniform weights, in percent", "neither"),
    Column(SOFTMAX, "differs from softmax", "difference of the output from softmax attention, in percent", "neither"),
    Column(RECENT, "last season", "weight on the last season of the lookback window, in percent", "neither"),
)  # fmt: skip
"""The numbers of a layer, see `forecast.tools.explain.layer_numbers.measure_layer`."""

LABELS = (
    VARIANT,
    Column("layer", "layer", "slot and number of the layer", "neither"),
    Column(
        "attention",
        "attention",
        "attention type of the layer; α and β: the poolings of Fastformer",
        "neither",
    ),
)


def make_layer_table(task: Task) -> HtmlTable | None:
    """Return the numbers of each layer of each variant; None if no run has any."""
    rows = [("", cells) for cells in list_layers(task)]
    return (
        HtmlTable("Attention layers, mean ± standard deviation over seeds", [*LABELS, *NUMBERS], rows)
        if rows
        else None
    )


def list_layers(task: Task) -> Iterator[list[Cell]]:
    """Yield the cells of each layer and map of each variant."""
    for entry in task.unmerged_variants:
        files = [run.folder / LAYERS_FILE for run in entry.runs]
        tables = [
            pd.read_csv(file, keep_default_na=False, na_values={"mean": [""]})
            for file in files
            if file.exists()
        ]
        if not tables:
            continue
        groups = pd.concat(tables).groupby(["layer", "attention", "map"], sort=False)
        for (layer, attention, name), table in groups:  # type: ignore[misc]
            labels = (entry.name, layer, f"{attention} {name}".strip())
            values = {key: (100 * part["mean"]).tolist() for key, part in table.groupby("number")}
            numbers = (mean_and_std(values.get(column.key, [math.nan])) for column in NUMBERS)
            yield [*map(Cell.from_text, labels), *(Cell.from_number(*number) for number in numbers)]
