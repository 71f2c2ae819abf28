"""The page docs/benchmarks/peers-accuracy.md: scores and costs of the forecasters, task by task."""

import math
from collections.abc import Sequence
from typing import Any

from peer_scores.forecasters import (
    FORECASTERS,
    LIGHTGBM,
    MAX_BATCH,
    MAX_ROWS,
    MAX_TREES,
    NEURALFORECAST,
    PATIENCE_TREES,
    STEP,
    WINDOWS,
)
from peer_scores.tasks import TASKS
from results.result import emboldened, per_cent, score
from results.settings import TRANSFORM
from tables import markdown_table

BASELINES = {"seasonal_naive": "seasonal naive", "linear": "linear baseline"}
NOT_RUN = "not run"
CHECKED = "`model=mlp`"
"""The forecaster whose run is scored twice in each task; its baselines are those of the page."""

HEAD = """\
# Other libraries on the same rows

Test scores of this project, [LightGBM](https://lightgbm.readthedocs.io) and models of
[neuralforecast](https://github.com/Nixtla/neuralforecast), trained by `scripts/peers_accuracy` on the same rows. Errors
are on values that are standardised with the training rows. Every test window counts. Bold: the lowest error, without
the baselines. One seed.

- **With covariates**, as in [Future covariates](../results.md#future-covariates): 24 hours ahead from 168 hours,
  electricity prices with two columns that are known for the next day, and a load with the measured temperature, which
  is not known in practice. The rows are split 7:1:2.
- **Several columns from their own past**, as in [A flat head](../results.md#a-flat-head): 96 steps ahead from 336, the
  7 columns of ETTm1 every 15 minutes (split into 12, 4 and 4 months) and the 21 columns of weather every 10 minutes
  (split 7:1:2; −9999 is a missing value). Published scores of weather are on another scale.
"""
SIDES = """\
The lowest error of this project beside that of the peers; on both sides, the test errors in the table above select the
forecaster:
"""
SETTINGS = """\
## Settings

Each forecaster reads the past of its targets, the calendar, and the known columns over the lookback window and the
horizon. Each is trained once, on one thread, and minimises the squared error. The validation rows select the epoch, the
number of trees, or the step at which training ends. No setting was selected by test errors of this comparison.

- **This project**: the commands of docs/results.md ([with covariates](../results.md#future-covariates),
  [several columns](../results.md#a-flat-head)), `attention=full`; for prices, `{transform}`, which no peer has. It
  applies to the linear baseline too. Test errors on these prices were visible when some of the defaults were chosen
  ([details](../results.md#future-covariates)). The peers have no such advantage.
- **LightGBM**: one model for all columns and all steps of the horizon. Features of a window and a step: the values 1,
  2, ... days before the step, as far as the window reaches; the last three values; means of the last day and of the
  window, and with steps below an hour those of the last hour and six hours; each known column at the step, a day and
  a week before, and its means over the last day and the horizon; step, hour, weekday and day of the year; the column.
  The mean of the window is subtracted from the past values and from the target. Training and validation each read at
  most {max_rows} million rows of features, from windows at equal distances. Training adds at most {trees} trees, and
  ends after {patience} without a lower validation error. Parameters, the last two of which are defaults: {lightgbm}.
- **neuralforecast**: default sizes, `input_size` as long as the window, `loss=MSE()`,
  {neuralforecast}.
  Training ends after three validations without a lower error, and the last weights are used, as the library does. The
  known columns and the calendar (sine and cosine of hour, weekday and day of the year) are `futr_exog_list`, whose past
  the models read too. PatchTST reads the target alone, and TimeXer the past of the columns, as in the library. All
  columns are standardised by the training rows, and missing values interpolated. TSMixerx and PatchTST have RevIN. With
  covariates, NHITS and BiTCN scale each window (`scaler_type=robust`), as in the library's tutorials on prices; on
  weather, where windows without rain have no deviation, the validation errors of NHITS exceeded 10⁴ (by hand). Without
  it, NHITS diverges there too: its validation MSE was 0.73 after 200 steps and 33 after 500. The
  default of `loss` is MAE, and that of `windows_batch_size` is 1,024 (NHITS, BiTCN, PatchTST) or 32 (TSMixerx). 128 is
  the batch size of this project; with it, most models take seconds of the same order. With several columns, a batch
  holds {windows} windows of each, as in this project, but at most {batch} windows of one column; training and
  validation windows begin every {step} rows (`step_size`), because the models of one column copy all windows at every
  step. Papers report a lower error of PatchTST on ETTm1, 0.289, with settings of their own
  ([A flat head](../results.md#a-flat-head)).

TFT and TimeXer have 32 windows of one column in a batch; TFT on NP has 128. TimeXer has the learning rate and the
patch length of its authors' code for electricity prices (`learning_rate=1e-4`, `patch_len=24`). With the rate of the
library, 1e-3, its validation errors on NP and DE stayed near those before training. Its authors report lower errors,
also from past columns: 0.236, 0.093, 0.379, 0.385 and 0.440 on NP, PJM, BE, FR and DE. But for BiTCN, the
cells that were not run are the most expensive ones: a step of TFT takes 18 s on ETTm1, and one of TimeXer 3 s (by
hand); training has up to 1,000 steps.

CPU seconds (user and system) and peak memory are those of the whole process: imports, reading, training and the
forecasts of the test windows. Those of this project include the fit and the scores of three baselines, intervals and
pictures.
"""


def write_page(content: dict[str, Any]) -> str:
    """Return the page from the finished results."""
    rows = content["cells"]
    shown = [task for task in TASKS if any(key.startswith(f"{task}/") for key in rows)]
    names = [name for name in FORECASTERS if any(key.endswith(f"/{name}") for key in rows)]
    tables = [
        markdown_table([title, *shown], list_errors(rows, shown, names, key))
        for title, key in (("MSE", "mse"), ("MAE", "mae"))
    ]
    costs = markdown_table(["CPU seconds, peak MiB", *shown], list_costs(rows, shown, names))
    sides = markdown_table(
        ["lowest MSE", "of this project", "CPU seconds", "of a peer", "CPU seconds", "difference"],
        compare_sides(rows, shown),
    )
    parts = [
        HEAD.strip(),
        *("\n".join(table) for table in (*tables, costs)),
        *([f"Not run: {', '.join(left)}."] if (left := list_not_run(shown, names)) else []),
        SIDES.strip(),
        "\n".join(sides),
        SETTINGS.format(
            transform=TRANSFORM,
            max_rows=MAX_ROWS // 1_000_000,
            lightgbm=format_settings(LIGHTGBM, "seed", "num_threads", "verbose"),
            trees=f"{MAX_TREES:,}",
            patience=PATIENCE_TREES,
            neuralforecast=format_settings(
                NEURALFORECAST, "random_seed", "inference_windows_batch_size", "early_stop_patience_steps"
            ),
            windows=WINDOWS,
            batch=MAX_BATCH,
            step=STEP,
        ).strip(),
        check_scores(content["checks"]),
        describe_machines(content["machines"]),
    ]
    return "\n\n".join(parts) + "\n"


def list_errors(rows: dict[str, Any], tasks: list[str], names: list[str], key: str) -> list[list[str]]:
    """Return a line of errors for each forecaster, the lowest of a task in bold, and for the baselines."""
    columns = []
    for task in tasks:
        errors = [rows.get(f"{task}/{name}", {}).get(key, math.nan) for name in names]
        baselines = rows.get(f"{task}/{CHECKED}", {}).get("baselines", {})
        others = [score(baselines[name][key]) if baselines else NOT_RUN for name in BASELINES]
        columns.append([*emboldened([score(error) for error in errors], errors), *others])
    return [list(line) for line in zip([*names, *BASELINES.values()], *columns, strict=True)]


def list_costs(rows: dict[str, Any], tasks: list[str], names: list[str]) -> list[list[str]]:
    """Return a line of costs for each forecaster."""
    found = {key: f"{row['cpu_seconds']:,.0f}, {row['peak_mib']:,.0f}" for key, row in rows.items()}
    return [[name, *(found.get(f"{task}/{name}", NOT_RUN) for task in tasks)] for name in names]


def compare_sides(rows: dict[str, Any], tasks: list[str]) -> list[list[str]]:
    """Return a line for each task that has results of both sides."""
    lines = []
    for task in tasks:
        sides: dict[bool, list[str]] = {True: [], False: []}
        for name, forecaster in FORECASTERS.items():
            if f"{task}/{name}" in rows:
                sides[forecaster.library == "forecast"].append(name)
        if not all(sides.values()):
            continue
        line, errors = [task], []
        for names in sides.values():
            best = min(
                (rows[f"{task}/{name}"] | {"name": name} for name in names), key=lambda row: row["mse"]
            )
            line += [f"{score(best['mse'])}, {best['name']}", f"{best['cpu_seconds']:,.0f}"]
            errors.append(best["mse"])
        lines.append([*line, per_cent(errors[0], errors[1])])
    return lines


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


def list_not_run(tasks: Sequence[str], forecasters: Sequence[str]) -> list[str]:
    """List the tasks and the forecasters without any result."""
    return [name for name in (*TASKS, *FORECASTERS) if name not in (*tasks, *forecasters)]
