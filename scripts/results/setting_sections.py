"""The tables of docs/results.md that compare settings and models of a data set, in Markdown."""

import math
import textwrap

from results.result import MISSING, Result, mean_over, per_cent, score
from results.settings import FEWER, PERCEPTRON, TIME_STRIDES, TRANSFORM, WITHOUT
from tables import markdown_table

LINEAR = "linear baseline"


def whole(value: float) -> str:
    return f"{value:,.0f}" if value == value else MISSING


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
                shown = "–" if PERCEPTRON in variant.split() else attention
                scores = [group.text("validation_mse"), with_epoch(group), whole(group.mean("seconds"))]
                rows.append([f"`{variant}`", shown, *scores])
        rows.append([LINEAR, "", "", score(result.pick(data=data).mean("linear_mse")), ""])
        header = ["settings", "attention", "validation MSE", "test MSE (epoch)", "seconds"]
        lines += [f"### {data}, 96 steps", "", *markdown_table(header, rows), ""]
    return lines


def by_setting(result: Result) -> list[str]:
    """One table: the validation errors of each setting by data set, with the difference from the first setting."""
    names, variants = result.has("data"), result.has("variant")
    rows = [[f"`{variant}`"] for variant in variants]
    for name in names:
        first = result.pick(data=name, variant=variants[0]).mean("validation_mse")
        for row, variant in zip(rows, variants, strict=True):
            group = result.pick(data=name, variant=variant)
            change = per_cent(group.mean("validation_mse"), first) if group.pairs else ""
            row += [group.text("validation_mse") if group.pairs else "", change]
    header = [text for name in names for text in (f"{name}, validation MSE", "change")]
    return [*markdown_table(["settings", *header], rows), ""]


def by_stride(result: Result) -> list[str]:
    """One table: the validation errors of each stride by data set and horizon, with the difference from the first."""
    rows, changes = [], []
    for data in result.has("data"):
        for horizon in result.pick(data=data).has("horizon"):
            group = result.pick(data=data, horizon=horizon)
            each = [group.pick(variant=variant) for variant in TIME_STRIDES]
            first, *others = (cell.mean("validation_mse") for cell in each)
            row = [data, str(horizon), each[0].text("validation_mse")]
            for cell, error in zip(each[1:], others, strict=True):
                row += [cell.text("validation_mse"), per_cent(error, first)]
            rows.append(row)
            changes.append([math.log(error / first) for error in others])
    means = [math.exp(mean_over(values)) for values in zip(*changes, strict=True)]
    rows.append(["geometric mean", "", "", *(text for mean in means for text in ("", per_cent(mean, 1)))])
    first, *others = TIME_STRIDES.values()
    header = ["validation MSE", "horizon", f"stride {first}"]
    header += [text for stride in others for text in (f"stride {stride}", f"change from {first}")]
    return [*markdown_table(header, rows), ""]


def by_loss(result: Result) -> list[str]:
    """One table per data set: validation and test errors of each model and loss by horizon."""
    lines = []
    for data in result.has("data"):
        group = result.pick(data=data)
        rows = []
        for variant in group.has("variant"):
            each = [group.pick(variant=variant, horizon=length) for length in group.has("horizon")]
            shown = [f"{score(cell.mean('validation_mse'))} / {score(cell.mean())}" for cell in each]
            model, loss = (
                next((word for word in variant.split() if word.startswith(key)), f"{key}mse")
                for key in ("model=", "loss=")
            )
            rows.append([f"`{model}`", f"`{loss}`", *shown])
        header = ["validation / test MSE", "loss", *map(str, group.has("horizon"))]
        lines += [f"### {data}", "", *markdown_table(header, rows), ""]
    return lines


def by_axis(result: Result) -> list[str]:
    """One table: validation and test errors by the attention type over time and over variables."""
    kinds = result.has("attention")
    rows = []
    for kind in kinds:
        each = [
            result.pick(attention=kind, variant=variant)
            for variant in result.pick(attention=kind).has("variant")
        ]
        rows.append(
            [kind, *(f"{cell.text('validation_mse')} / {cell.text('published_mse')}" for cell in each)]
        )
    over = [variant.split("variables=")[1] for variant in result.has("variant")]
    return [*markdown_table(["over time", *(f"over variables: {name}" for name in over)], rows), ""]


def with_epoch(group: Result) -> str:
    """The score, and the number of the tested epoch in parentheses."""
    epochs = [f"{row['best_epoch']:.0f}" for row in group.rows]
    return f"{group.text()} ({', '.join(epochs)})" if epochs else MISSING
