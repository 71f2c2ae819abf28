"""The tables of docs/results.md in Markdown, made from the cells of one table."""

import textwrap
from collections.abc import Callable

import numpy as np

from forecast.data.sets.recall import WEEK, WEEKS, lowest_possible_mse
from results.cells import FEWER, PERCEPTRON, TRANSFORM, WITHOUT
from results.published import INFORMER, PUBLISHED
from results.result import MISSING, Result, emboldened, mean_over, per_cent, score
from tables import markdown_table

LINEAR = "linear baseline"


def by_horizon(result: Result) -> list[str]:
    """One table per data set: attention types by horizon, the linear baseline and published scores."""
    lines = []
    for data in result.has("data"):
        group = result.pick(data=data)
        lengths, attention_types = group.has("horizon"), group.has("attention")
        columns, linear = [], []
        for length in lengths:
            each = [group.pick(horizon=length, attention=attention) for attention in attention_types]
            columns.append(([cell.text() for cell in each], [cell.mean() for cell in each]))
            linear.append(group.pick(horizon=length).mean("linear_mse"))
        means = [mean_over(values) for values in zip(*(values for _, values in columns), strict=True)]
        columns.append(([score(mean) for mean in means], means))
        shown = [emboldened(texts, values) for texts, values in columns]
        rows = [
            [attention, *texts]
            for attention, texts in zip(attention_types, zip(*shown, strict=True), strict=True)
        ]
        rows.append([LINEAR, *(score(value) for value in (*linear, mean_over(linear)))])
        for paper, tables in PUBLISHED.items():
            if data in tables:
                rows.append([f"*{paper}*", *(f"{v:.3f}" for v in (*tables[data], mean_over(tables[data])))])
        lines += [f"### {data}", "", *markdown_table(["MSE", *map(str, lengths), "mean"], rows), ""]
    return [*lines, *untrained(result)]


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


def whole(value: float) -> str:
    return f"{value:,.0f}" if value == value else MISSING


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


TRANSFORMS = (
    "With `data.transform=auto`, which selects asinh of the prices by the validation error of the linear baseline. All "
    "errors are mean squared errors of standardised values, also those of the transformed runs. The margin of the rule "
    "was chosen on simulated data, when test errors of the linear baseline on three prices were visible. That epochs "
    "are selected by errors in original units, not in transformed ones, was decided when the test errors of two models "
    "on PJM were visible."
)


def with_and_without(result: Result) -> list[str]:
    """Three tables by data set: test MSE without and with covariates, with a transform, and by windows of an epoch."""
    rows, epochs, transforms = [], [], []
    for data in result.has("data"):
        without, known, fewer, perceptron = (
            result.pick(data=data, variant=variant) for variant in (WITHOUT, "everything", FEWER, PERCEPTRON)
        )
        linear = [group.mean("linear_mse") for group in (without, known)]
        change = per_cent(known.mean(), without.mean())
        rows.append(
            [data, *map(score, linear), without.text(), with_epoch(known), change, with_epoch(perceptron)]
        )
        transforms.append([data, *with_transform(result.pick(data=data))])
        validation = [group.mean("validation_mse") for group in (fewer, known)]
        test = [group.mean() for group in (fewer, known)]
        changes = [per_cent(every, few) for few, every in (validation, test)]
        epochs.append([data, *map(score, validation), changes[0], *map(score, test), changes[1]])
    columns = [
        f"{LINEAR}, without", "with", "default model, without", "with", "change", "`model=mlp`, with",
    ]  # fmt: skip
    compared = [LINEAR, "`auto`", "default model", "`auto`", "change", "`model=mlp`", "`auto`", "change"]
    return [
        *markdown_table(["MSE", *columns], rows),
        "",
        *textwrap.wrap(TRANSFORMS, 119),
        "",
        *markdown_table(["MSE", *compared], transforms),
        "",
        "The windows of an epoch: 5,214 in batches of 32, or all of them in batches of 128, which is the default with",
        "future covariates.",
        "",
        *markdown_table(
            ["MSE", "validation: 5,214", "all", "change", "test: 5,214", "all", "change"], epochs
        ),
        "",
    ]


def with_transform(result: Result) -> list[str]:
    """The errors of the linear baseline, the default model and the perceptron, without and with a transform.

    The scaled errors of a transformed run are those of transformed values. Here they are computed from errors in data
    units: naive forecasts do not depend on the transform, so they give the scale of the standardised values.
    """
    texts = []
    for plain, name in (("everything", TRANSFORM), (PERCEPTRON, f"{PERCEPTRON} {TRANSFORM}")):
        before, after = (result.pick(variant=variant) for variant in (plain, name))
        per_unit = before.mean("naive_mse") / after.mean("naive_rmse_raw") ** 2
        linear, model = (per_unit * after.mean(key) ** 2 for key in ("linear_rmse_raw", "rmse_raw"))
        if not texts:
            texts += [score(before.mean("linear_mse")), score(linear)]
        texts += [with_epoch(before), score(model), per_cent(model, before.mean())]
    return texts


def by_model(result: Result) -> list[str]:
    """One table per data set: errors, the tested epoch and seconds of each model and attention type."""
    lines = []
    for data in result.has("data"):
        rows = []
        for variant in result.has("variant"):
            for attention in result.pick(data=data, variant=variant).has("attention"):
                group = result.pick(data=data, variant=variant, attention=attention)
                shown = "–" if "model=mlp" in variant.split() else attention
                scores = [group.text("validation_mse"), with_epoch(group), whole(group.mean("seconds"))]
                rows.append([f"`{variant}`", shown, *scores])
        rows.append([LINEAR, "", "", score(result.pick(data=data).mean("linear_mse")), ""])
        header = ["settings", "attention", "validation MSE", "test MSE (epoch)", "seconds"]
        lines += [f"### {data}, 96 steps", "", *markdown_table(header, rows), ""]
    return lines


def with_epoch(group: Result) -> str:
    """The score, and the number of the tested epoch in parentheses."""
    epochs = [f"{row['best_epoch']:.0f}" for row in group.rows]
    return f"{group.text()} ({', '.join(epochs)})" if epochs else MISSING


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


LAYOUTS: dict[str, Callable[[Result], list[str]]] = {
    "load": below_linear,
    "windows": lambda result: [*by_window(result), *untrained(result)],
    "recall": by_memory,
    "ablation": lambda result: [*by_variant(result), *untrained(result)],
    "covariates": with_and_without,
    "flat": by_model,
    "informer2020": beside_published,
}
"""Layouts of the tables that are not laid out by horizon."""
