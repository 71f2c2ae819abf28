"""The page docs/benchmarks/fev_bench.md: our scores among the published ones."""

from typing import Any

import pandas as pd

from leaderboard.tasks import TASKS
from tables import markdown_table

PRICES = [name for name in TASKS if name.startswith("epf")]
TRANSFORM = "data.transform=auto"
LABELS = {"residual_informer": "default model", "mlp": "`model=mlp`", "linear baseline": "linear baseline"}
OURS = LABELS | {f"{name} {TRANSFORM}": f"{label}, `{TRANSFORM}`" for name, label in LABELS.items()}
SELECTED = "selected by validation"

HEAD = """\
# Tasks of fev-bench

Scores of this program among those that [fev-bench](https://github.com/autogluon/fev) publishes, on tasks whose data are
public files: prices of electricity with two forecasts that are known a day ahead (Lago et al. 2021), and the load and
the temperature of GEFCom2014-E (Hong et al. 2016). `scripts/leaderboards fev_bench` runs them and writes this page.

SQL is the mean quantile loss of the deciles, divided by the mean absolute difference of values that are 24 hours apart,
before each origin. Lower is better. A task has 20 origins at the end of its rows, 24 hours (gfc14: 168 hours) apart.

Each of our models is trained once, on the rows before the first origin: 336 hours read, `attention=full`,
`loss=quantile`, `refit=full` (the linear baseline too), training, validation and test rows 80:15:5, otherwise default
settings, one thread, one seed. With `data.transform=auto`, the validation error of the linear baseline decides whether
the target is transformed. The row *{selected}* takes, for each task, the model with the lowest validation MSE. The
seconds are those of training and inference for all price tasks, on different hardware; those of the linear baseline
include the training of a model in the same run. Foundation models were pretrained on other data. The temperature of
gfc14 is the measured one.

The quantile loss on validation windows selects the epoch ([details](../residual.md#quantiles)). In earlier runs, in
which the MSE selected it, the default model had 0.522 on the mean of prices and 0.478 on gfc14, `model=mlp` 0.508 and
0.571, and with the transform 0.538 on prices.
"""


def write_page(content: dict[str, Any], published: pd.DataFrame) -> str:
    """Return the page from our rows and the published ones."""
    rows = pd.DataFrame(content["rows"])
    scores = pd.concat(
        [published.pivot(index="model_name", columns="task_name", values="SQL"), tabulate(rows, "SQL")]
    )
    seconds = pd.concat([published.assign(seconds=published["training_time_s"] + published["inference_time_s"])
        .pivot(index="model_name", columns="task_name", values="seconds"), tabulate(rows, "seconds")])  # fmt: skip
    ordered = scores[PRICES].mean(axis=1, skipna=False).sort_values()  # our incomplete rows come last
    mean = {str(model): float(value) for model, value in ordered.items() if is_ours(str(model)) or value > 0}
    names = list(TASKS)
    header = [
        "rank",
        "model",
        "mean of prices",
        *(name.removeprefix("proenfo_") for name in names),
        "seconds, prices",
    ]
    lines = [
        [
            str(place + 1) if mean[model] > 0 else "",
            bold(model, is_ours(model)),
            bold(format_score(mean[model]), is_ours(model) and mean[model] > 0),
            *(format_score(scores.loc[model].get(name)) for name in names),
            f"{seconds.loc[model, PRICES].sum():,.0f}",
        ]
        for place, model in enumerate(mean)
    ]
    parts = [
        HEAD.format(selected=SELECTED).strip(),
        "\n".join(markdown_table(header, lines)),
        check_scores(content, published),
    ]
    return "\n\n".join([*parts, describe_hardware(content)])


def tabulate(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a value by model and task, and those selected by validation among the models run on all tasks."""
    rows = rows.assign(seconds=rows["training_s"] + rows["inference_s"])
    table = rows.pivot(index="model", columns="task", values=column)
    validated = rows.dropna(subset="validation_mse")
    runs = validated.groupby("model")["task"].transform("size")
    validated = validated[runs == validated["task"].nunique()]
    best = validated.loc[validated.groupby("task")["validation_mse"].idxmin()].set_index("task")
    selected = best[column] if column != "seconds" else validated.groupby("task")["seconds"].sum()
    table = table.rename(index=OURS)
    table.loc[SELECTED] = selected
    return table


def check_scores(content: dict[str, Any], published: pd.DataFrame) -> str:
    """Return the table that compares our seasonal naive with the published one. Raises ValueError if they differ."""
    naive = published[published["model_name"] == "Seasonal Naive"].set_index("task_name")
    for name, scores in content["seasonal_naive"].items():
        if abs(scores["MASE"] - naive.loc[name, "MASE"]) > 1e-4:
            raise ValueError(f"{name}: the seasonal naive differs from the published one, so the data differ")
    lines = [
        [name, f"{scores['MASE']:.4f}", f"{naive.loc[name, 'MASE']:.4f}"]
        for name, scores in content["seasonal_naive"].items()
    ]
    table = markdown_table(["task", "MASE of our seasonal naive", "published"], lines)
    return "\n".join(["The data, the origins and the scale are those of the published scores:", "", *table])


def describe_hardware(content: dict[str, Any]) -> str:
    """Return the line on the hardware and the versions of our rows."""
    machines = [
        f"{each['device']}, torch {each['torch']}, python {each['python']}" for each in content["hardware"]
    ]
    return f"Our rows: {'; '.join(machines)}.\n"


def is_ours(model: str) -> bool:
    return model in (SELECTED, *OURS.values())


def bold(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text


def format_score(value: float | None) -> str:
    return "" if value is None or pd.isna(value) else f"{value:.3f}"
