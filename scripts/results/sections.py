"""The tables of docs/results.md in Markdown, made from the cells of one table."""

import textwrap
from collections.abc import Callable

import numpy as np

from forecast.data.sets.recall import WEEK, WEEKS, lowest_possible_mse
from results.published import INFORMER, PUBLISHED
from results.result import Result, emboldened, mean_over, per_cent, score
from results.setting_sections import (
    LINEAR,
    by_axis,
    by_loss,
    by_model,
    by_setting,
    by_stride,
    whole,
    with_and_without,
)
from tables import markdown_table


def by_horizon(result: Result) -> list[str]:
    """One table per data set, see `tables_by_horizon`, and the cells that are linear models."""
    return [*tables_by_horizon(result), *untrained(result)]


def tables_by_horizon(
    result: Result,
    mse: str = "mse",
    linear_mse: str = "linear_mse",
    *,
    scale: str = "",
    with_published: bool = True,
) -> list[str]:
    """One table per data set: attention types by horizon, the linear baseline and published scores.

    `mse` and `linear_mse` are the keys of the errors, `scale` ends the title.
    """
    lines = []
    for data in result.has("data"):
        group = result.pick(data=data)
        lengths, names = group.has("horizon"), group.has("forecaster")
        forecasters = [name for name in names if group.pick(forecaster=name).rows]
        columns, linear = [], []
        for length in lengths:
            each = [group.pick(horizon=length, forecaster=name) for name in forecasters]
            columns.append(([cell.text(mse) for cell in each], [cell.mean(mse) for cell in each]))
            linear.append(group.pick(horizon=length).mean(linear_mse))
        means = [mean_over(values) for values in zip(*(values for _, values in columns), strict=True)]
        columns.append(([score(mean) for mean in means], means))
        shown = [emboldened(texts, values) for texts, values in columns]
        rows = name_rows(group, dict(zip(forecasters, zip(*shown, strict=True), strict=True)))
        rows.append([LINEAR, *(score(value) for value in (*linear, mean_over(linear)))])
        for paper, tables in PUBLISHED.items():
            if with_published and data in tables:
                rows.append([f"*{paper}*", *(f"{v:.3f}" for v in (*tables[data], mean_over(tables[data])))])
        lines += [f"### {data}{scale}", "", *markdown_table(["MSE", *map(str, lengths), "mean"], rows), ""]
        if missing := [name for name in names if name not in forecasters]:
            lines += [f"Not run: {', '.join(missing)}.", ""]
    return lines


def name_rows(group: Result, texts: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """One row per forecaster; those that have kept the linear model alone in every cell share one."""
    alone = [
        name for name in texts if all(row["best_epoch"] == 0 for row in group.pick(forecaster=name).rows)
    ]
    rows = [[name, *cells] for name, cells in texts.items() if name not in alone]
    if alone:
        names = "every trained model" if len(alone) == len(texts) > 1 else ", ".join(alone)
        rows.append([f"{names}: the linear model alone", *texts[alone[0]]])
    return rows


def untrained(result: Result) -> list[str]:
    """The number of cells whose tested model is the linear model alone, as a sentence."""
    count = sum(row["best_epoch"] == 0 for row in result.rows)
    if not count:
        return []
    text = (
        f"In {count} of the {len(result.rows)} cells, no epoch lowered validation MSE by at least 1% relative to the "
        "linear model that training starts from. The linear model alone was tested there; it depends on neither the "
        "attention type nor the seed."
    )
    return [*textwrap.wrap(text, 120), ""]


def below_linear(result: Result) -> list[str]:
    """One table per data set: attention types by horizon, with the difference from the linear baseline."""
    lines = []
    for data in result.has("data"):
        group = result.pick(data=data)
        lengths, attention_types = group.has("horizon"), group.has("attention")
        header, columns, last = ["MSE"], [], [LINEAR]
        for length in lengths:
            each = [group.pick(horizon=length, attention=attention) for attention in attention_types]
            linear = group.pick(horizon=length).mean("linear_mse")
            values = [cell.mean() for cell in each]
            columns.append(emboldened([cell.text() for cell in each], values))
            columns.append([per_cent(value, linear) for value in values])
            header += [str(length), "vs. linear"]
            last += [score(linear), ""]
        rows = [
            [attention, *texts]
            for attention, texts in zip(attention_types, zip(*columns, strict=True), strict=True)
        ]
        lines += [f"### {data}", "", *markdown_table(header, [*rows, last]), ""]
    return lines


def by_window(result: Result) -> list[str]:
    """One table per data set: MSE, seconds and memory by window length and attention type."""
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
        header = ["input steps", "attention", "MSE", LINEAR, "seconds", "peak MiB"]
        lines += [f"### {data}, {horizon} steps ahead", "", *markdown_table(header, rows), ""]
    return lines


def by_memory(result: Result) -> list[str]:
    """The table by window length, and the lowest possible errors."""
    (horizon,) = result.has("horizon")
    short, long = least_errors(horizon)
    text = (
        f"Lowest possible error: {score(short)} for windows without the relevant week, {score(long)} with it."
    )
    return [*by_window(result), text, ""]


def least_errors(horizon: int) -> tuple[float, float]:
    """The lowest possible test errors on `recall` for windows without and with the relevant week."""
    rows = WEEKS * WEEK
    origins = np.arange(rows - horizon, int(0.8 * rows) - 1, -125)  # conf/data/recall.yaml
    return lowest_possible_mse(origins[::-1], horizon)


def by_variant(result: Result) -> list[str]:
    """One table: the changed setting by data set, with the difference from the unchanged model."""
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
    """One table: scores with the settings of the Informer paper, and the published scores."""
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


def on_two_scales(result: Result) -> list[str]:
    """Weather: errors on the published scale beside published scores, then on the scale of valid numbers."""
    keys = ("published_mse", "published_linear_mse")
    return [
        *tables_by_horizon(result, *keys, scale=", −9999 as a number"),
        *tables_by_horizon(result, scale=", −9999 as a missing value", with_published=False),
        *untrained(result),
    ]


LAYOUTS: dict[str, Callable[[Result], list[str]]] = {
    "load": below_linear,
    "windows": lambda result: [*by_window(result), *untrained(result)],
    "recall": by_memory,
    "ablation": lambda result: [*by_variant(result), *untrained(result)],
    "covariates": with_and_without,
    "flat": by_model,
    "strides": by_stride,
    "sizes": by_setting,
    "losses": by_loss,
    "axes": by_axis,
    "informer2020": beside_published,
    "weather": on_two_scales,
}
"""Layouts of the tables that are not laid out by horizon."""
