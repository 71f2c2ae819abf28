"""The page docs/benchmarks/peers-accuracy.md: scores and costs of the forecasters, task by task."""

import math
from typing import Any

from peer_scores.forecasters import FORECASTERS, LIGHTGBM, MAX_TREES, NEURALFORECAST, PATIENCE_TREES
from results.cells import TRANSFORM, WITH_COVARIATES
from results.result import emboldened, score
from tables import markdown_table

BASELINES = {"seasonal_naive": "seasonal naive", "linear": "linear baseline"}
NOT_RUN = "not run"
CHECKED = "`model=mlp`"
"""The forecaster whose run is scored twice in each task; its baselines are those of the page."""

HEAD = """\
# Other libraries on data with covariates

Test scores of this project, [LightGBM](https://github.com/lightgbm-org/LightGBM) and models of
[neuralforecast](https://github.com/Nixtla/neuralforecast), trained by `scripts/peers_accuracy` on the same rows and the
same covariates. The tasks are those of [Future covariates](../results.md#future-covariates): 24 hours ahead from 168
hours, five electricity prices with two columns that are known for the next day, and a load with the measured
temperature, which is not known in practice. The rows are split 7:1:2, and every test window is counted. Errors are on
values that are standardised with the training rows. Bold: the lowest error, without the baselines. One seed.
"""
SETTINGS = """\
## Settings

Each forecaster reads the target, the known columns over the lookback window and the horizon, and the calendar. Each is
trained once, on one thread, and minimises the squared error. The validation rows select the epoch, the number of trees,
or the step at which training ends. No setting was selected by test errors of this comparison.

- **This project**: the commands of [docs/results.md](../results.md#future-covariates), `attention=full`; for prices,
  `{transform}`. For prices, the error in the test rows of *linear baseline* is that of the transformed target too. The
  settings are defaults that were developed on several data sets, and errors on the test rows of these prices were
  visible at some of the decisions ([details](../results.md#future-covariates)). No peer transforms the target.
- **LightGBM**: one model for all steps of the horizon. Features of a window and a step: the values 1, 2, ..., 7 days
  before the step; the last three values; means of the last day and week; each known column at the step, a day and a
  week before, and its means over the last day and the horizon; step, hour, weekday and day of the year. The mean of the
  last week is subtracted from the past values and from the target. {lightgbm}; at most {trees} trees, which end after
  {patience} without a lower validation error.
- **neuralforecast**: `input_size=168`, `loss=MSE()`, default sizes, and {neuralforecast}. Training ends after three
  validations without a lower error, and the last weights are used, as the library does. The known columns and the
  calendar (sine and cosine of hour, weekday and day of the year) are `futr_exog_list`, whose past the models read too.
  All columns are standardised by the training rows. NHITS and BiTCN also scale each window (`scaler_type=robust`), as
  in the library's tutorials on prices; TSMixerx has RevIN. The default of `loss` is MAE, and that of
  `windows_batch_size` is 1,024 (NHITS, BiTCN) or 32 (TSMixerx); 128 is the batch size of this project, so that a model
  takes seconds of the same order.

CPU seconds (user and system) and peak memory are those of the whole process: imports, reading, training and the
forecasts of the test windows. Those of this project include the fit and the scores of three baselines, intervals and
pictures.
"""


def write_page(content: dict[str, Any]) -> str:
    """Return the page from the finished results."""
    rows = content["cells"]
    shown = [task for task in WITH_COVARIATES if any(key.startswith(f"{task}/") for key in rows)]
    tables = [
        markdown_table([title, *shown], list_errors(rows, shown, key))
        for title, key in (("MSE", "mse"), ("MAE", "mae"))
    ]
    costs = markdown_table(["CPU seconds, peak MiB", *shown], list_costs(rows, shown))
    parts = [
        HEAD.strip(),
        *("\n".join(table) for table in (*tables, costs)),
        SETTINGS.format(
            transform=TRANSFORM,
            lightgbm=format_settings(LIGHTGBM, "seed", "num_threads", "verbose"),
            trees=f"{MAX_TREES:,}",
            patience=PATIENCE_TREES,
            neuralforecast=format_settings(
                NEURALFORECAST, "random_seed", "inference_windows_batch_size", "early_stop_patience_steps"
            ),
        ).strip(),
        check_scores(content["checks"]),
        describe_machines(content["machines"]),
    ]
    return "\n\n".join(parts) + "\n"


def list_errors(rows: dict[str, Any], tasks: list[str], key: str) -> list[list[str]]:
    """Return a line of errors for each forecaster, the lowest of a task in bold, and for the baselines."""
    columns = []
    for task in tasks:
        errors = [rows.get(f"{task}/{name}", {}).get(key, math.nan) for name in FORECASTERS]
        baselines = rows.get(f"{task}/{CHECKED}", {}).get("baselines", {})
        others = [score(baselines[name][key]) if baselines else NOT_RUN for name in BASELINES]
        columns.append([*emboldened([score(error) for error in errors], errors), *others])
    names = [*FORECASTERS, *BASELINES.values()]
    return [list(line) for line in zip(names, *columns, strict=True)]


def list_costs(rows: dict[str, Any], tasks: list[str]) -> list[list[str]]:
    """Return a line of costs for each forecaster."""
    found = {
        (name, task): rows[f"{task}/{name}"]
        for name in FORECASTERS
        for task in tasks
        if f"{task}/{name}" in rows
    }
    texts = {key: f"{row['cpu_seconds']:,.0f}, {row['peak_mib']:,.0f}" for key, row in found.items()}
    return [[name, *(texts.get((name, task), NOT_RUN) for task in tasks)] for name in FORECASTERS]


def format_settings(settings: dict[str, Any], *left_out: str) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in settings.items() if key not in left_out)


def check_scores(checks: dict[str, Any]) -> str:
    """Return the table that compares the scores of a run with those of its forecasts."""
    lines = [
        [task, name.replace("_", " "), *(f"{row[place]['mse']:.6f}" for place in ("run", "scored_here"))]
        for task, checked in checks.items()
        for name, row in checked.items()
        if name != "seasonal_naive"
    ]
    table = markdown_table(
        ["task", "forecaster", "MSE in metrics.json", "MSE by the scoring of the peers"], lines
    )
    text = """\
## The scores are the same

The peers are scored by code that reads the files without this project. The forecasts of a `model=mlp` run and of its
baselines for every test window, as `forecast.backtest stride=1` saves them, have the same errors there as in the run.
So has the naive forecast that is made from the rows alone."""
    return "\n".join([text, "", *table])


def describe_machines(machines: list[dict[str, str]]) -> str:
    return "\n".join(
        "- " + ", ".join(f"{key} {value}" for key, value in machine.items()) for machine in machines
    )
