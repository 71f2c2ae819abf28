"""The tables of docs/results.md: from the cells of one table to lines of Markdown."""

import textwrap
from collections.abc import Callable

import numpy as np

from forecast.data.recall import WEEK, WEEKS, floors
from results.published import INFORMER, PUBLISHED
from results.result import MISSING, Result, emboldened, mean_over, per_cent, score
from tables import markdown_table

LINEAR = "linear baseline"


def by_horizon(result: Result) -> list[str]:
    """A table a data set: kinds by horizons and their mean, the linear baseline, what papers print."""
    lines = []
    for data in result.has("data"):
        group = result.pick(data=data)
        lengths, kinds = group.has("horizon"), group.has("kind")
        columns, linear = [], []
        for length in lengths:
            each = [group.pick(horizon=length, kind=kind) for kind in kinds]
            columns.append(([cell.text() for cell in each], [cell.mean() for cell in each]))
            linear.append(group.pick(horizon=length).mean("linear_mse"))
        means = [mean_over(values) for values in zip(*(values for _, values in columns), strict=True)]
        columns.append(([score(mean) for mean in means], means))
        shown = [emboldened(texts, values) for texts, values in columns]
        rows = [[kind, *texts] for kind, texts in zip(kinds, zip(*shown, strict=True), strict=True)]
        rows.append([LINEAR, *(score(value) for value in (*linear, mean_over(linear)))])
        for paper, tables in PUBLISHED.items():
            if data in tables:
                rows.append([f"*{paper}*", *(f"{v:.3f}" for v in (*tables[data], mean_over(tables[data])))])
        lines += [f"### {data}", "", *markdown_table(["MSE", *map(str, lengths), "mean"], rows), ""]
    return [*lines, *untrained(result)]


def untrained(result: Result) -> list[str]:
    """In how many cells the linear map alone was tested."""
    count = sum(row["best_epoch"] == 0 for row in result.rows)
    if not count:
        return []
    text = (
        f"In {count} of the {len(result.rows)} cells run no epoch was 1% better on validation windows than the linear "
        "map that the model starts from: that map was tested, in which attention has no part and no seed."
    )
    return [*textwrap.wrap(text, 120), ""]


def below_linear(result: Result) -> list[str]:
    """A table a data set: kinds by horizons, each beside its distance to the linear baseline."""
    lines = []
    for data in result.has("data"):
        group = result.pick(data=data)
        lengths, kinds = group.has("horizon"), group.has("kind")
        header, columns, last = ["MSE"], [], [LINEAR]
        for length in lengths:
            each = [group.pick(horizon=length, kind=kind) for kind in kinds]
            linear = group.pick(horizon=length).mean("linear_mse")
            values = [cell.mean() for cell in each]
            columns.append(emboldened([cell.text() for cell in each], values))
            columns.append([per_cent(value, linear) for value in values])
            header += [str(length), "against linear"]
            last += [score(linear), ""]
        rows = [[kind, *texts] for kind, texts in zip(kinds, zip(*columns, strict=True), strict=True)]
        lines += [f"### {data}", "", *markdown_table(header, [*rows, last]), ""]
    return lines


def by_window(result: Result) -> list[str]:
    """A table a data set: past lengths and kinds by MSE, seconds and memory."""
    lines = []
    for data in result.has("data"):
        group, rows = result.pick(data=data), []
        for steps in group.has("steps_read"):
            past = group.pick(steps_read=steps)
            labels = past.has("label")
            each = [past.pick(label=label) for label in labels]
            texts = emboldened([cell.text() for cell in each], [cell.mean() for cell in each])
            for label, cell, text in zip(labels, each, texts, strict=True):
                costs = [whole(cell.mean("seconds")), whole(cell.mean("peak_memory_mb"))]
                rows.append([f"{steps:,}", label, text, score(past.mean("linear_mse")), *costs])
        (horizon,) = group.has("horizon")
        header = ["steps read", "kind", "MSE", LINEAR, "seconds", "peak MiB"]
        lines += [f"### {data}, {horizon} steps ahead", "", *markdown_table(header, rows), ""]
    return lines


def by_memory(result: Result) -> list[str]:
    """By past lengths, and what nobody can go below who does not see the last run, or who does."""
    (horizon,) = result.has("horizon")
    short, long = least_errors(horizon)
    text = f"Least possible error of windows without the last run: {score(short)}; of windows with it: {score(long)}."
    return [*by_window(result), text, ""]


def least_errors(horizon: int) -> tuple[float, float]:
    """Of windows of `recall` without the last run, and with it, over its test windows."""
    rows = WEEKS * WEEK
    origins = np.arange(rows - horizon, int(0.8 * rows) - 1, -125)  # conf/data/recall.yaml
    return floors(origins[::-1], horizon)


def whole(value: float) -> str:
    return f"{value:,.0f}" if value == value else MISSING


def by_variant(result: Result) -> list[str]:
    """One table: what was changed by data sets, each beside its distance to the whole model."""
    header, columns = ["changed"], []
    variants = result.has("variant")
    for data in result.has("data"):
        group = result.pick(data=data)
        (horizon,) = group.has("horizon")
        reference = group.pick(variant=variants[0]).mean()
        header += [f"{data}, {horizon}", "change"]
        each = [group.pick(variant=variant) for variant in variants]
        columns.append([cell.text() if cell.pairs else "" for cell in each])
        changes = [per_cent(cell.mean(), reference) if cell.pairs else "" for cell in each[1:]]
        columns.append(["", *changes])
    names = ["nothing", *(f"`{variant}`" for variant in variants[1:])]
    rows = [[name, *texts] for name, texts in zip(names, zip(*columns, strict=True), strict=True)]
    return [*markdown_table(header, rows), ""]


def beside_published(result: Result) -> list[str]:
    """One table: the Informer paper's settings, ours and theirs."""
    rows = []
    for data in result.has("data"):
        for features in result.has("variant"):
            group = result.pick(data=data, variant=features)
            for horizon in group.has("horizon"):
                cell = group.pick(horizon=horizon)
                mse, mae = INFORMER[data, features, horizon]
                ratio = f"{cell.mean() / mse:.2f}" if cell.rows else "–"
                ours, linear = [cell.text(), cell.text("mae")], score(cell.mean("linear_mse"))
                scores = [ours[0], f"{mse:.3f}", ratio, ours[1], f"{mae:.3f}", linear]
                rows.append([data, features, str(horizon), *scores])
    header = [
        "data",
        "features",
        "horizon",
        "MSE",
        "published",
        "ratio",
        "MAE",
        "published",
        f"{LINEAR}, MSE",
    ]
    return [*markdown_table(header, rows), ""]


LAYOUTS: dict[str, Callable[[Result], list[str]]] = {
    "load": below_linear,
    "windows": lambda result: [*by_window(result), *untrained(result)],
    "recall": by_memory,
    "ablation": lambda result: [*by_variant(result), *untrained(result)],
    "informer2020": beside_published,
}
"""Of the tables that are not laid out by horizon."""
