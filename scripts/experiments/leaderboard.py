"""Our models on tasks of fev-bench and GIFT-Eval, and their ranks among the published ones.

Each model is trained once on the rows before the first origin of a task, and forecasts all origins.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from experiments import leaderboard_tasks as tasks
from experiments.cells import Cell
from experiments.leaderboard_tasks import TARGET, TASKS, Deciles, Task
from experiments.run import Context
from experiments.store import Row
from forecast import Model, fit

LEVELS = (20, 40, 60, 80)
"""Levels of the intervals whose bounds are the deciles beside the median."""
CONTEXT = 4
"""Windows of rows that a model is given: more than it reads, for baselines that read further back."""
VALIDATION_SHARE, VALIDATION_SEQUENCES = 0.15, 4_000
TABLE_WINDOWS, SERIES_WINDOWS = 2_000, 6_000
"""Windows of an epoch: of all series of a table, and of one series."""
SERIES, DATE, VALUE = "series", "date", "value"
LINEAR, NAIVE = "linear baseline", "Seasonal Naive"
LEAKING = (
    "Chronos_small", "Lag-Llama", "MoiraiAgent-leaking", "RAES-Conductance-Ensemble", "Super-Linear",
    "TSOrchestra-test", "TTM-R1-Pretrained", "TTM-R2-Finetuned", "TTM-R2-Pretrained", "chronos_base",
    "chronos_bolt_base", "chronos_bolt_small", "chronos_large", "tempo_ensemble", "timesfm", "timesfm_2_0_500m",
)  # fmt: skip
"""Published models whose config.json says that their training data contain test rows of GIFT-Eval."""


class Benchmark(NamedTuple):
    """Scores of a benchmark, and how its published scores are read and combined."""

    models: tuple[str, ...]  # options of `model`, then other overrides
    score: Callable[..., dict[str, float]]
    naive: Callable[..., Deciles]
    metrics: tuple[str, ...]  # the first one ranks the models
    columns: dict[str, str]  # new names of published columns
    combined: str = ""  # prefix of the tasks whose scores are averaged
    relative: bool = True  # a geometric mean of scores over those of the seasonal naive; otherwise a mean


FEV, GIFT = {"model_name": "model", "task_name": "task"}, {"dataset": "task"}
BENCHMARKS = {
    "fev_bench": Benchmark(
        ("residual_informer", "mlp", "residual_informer data.transform=auto", "mlp data.transform=auto"),
        tasks.score_fev, tasks.repeat_season, ("SQL",), FEV, "epf", relative=False,
    ),
    "fev_tables": Benchmark(("mlp", "patch_encoder"), tasks.score_fev, tasks.repeat_season, ("SQL",), FEV),
    "gift_eval": Benchmark(
        ("mlp optimizer.lr=3e-3 data.batch_size=64", "patch_encoder"), tasks.score_gift,
        tasks.repeat_season_normally, ("CRPS", "MASE"), GIFT,
    ),
}  # fmt: skip


def list_cells(table: str) -> list[Cell]:
    """Return a cell for each task and model."""
    return [
        Cell(table, f"{task.name}/{model}", (f"model={model}",), {"task": task.name, "model": model})
        for task in TASKS[table]
        for model in BENCHMARKS[table].models
    ]


def run_task(cell: Cell, context: Context) -> Row:
    """Return the scores of a model, of the linear baseline of the same run, and of the seasonal naive."""
    benchmark = BENCHMARKS[cell.table]
    (task,) = (task for task in TASKS[cell.table] if task.name == cell.facts["task"])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return score_models(task, context.root, benchmark, list(cell.overrides))


def score_models(task: Task, root: Path, benchmark: Benchmark, overrides: list[str]) -> Row:
    """Train in the working directory, which receives a run folder. Seconds are those of the processor."""
    scored, inputs = task.read(root), task.read_inputs(root)
    values = scored.to_numpy(np.float64)[:, : 1 if task.covariates else None]
    began = time.process_time()
    trained = train(task, inputs.iloc[: task.origins(len(inputs))[0]], " ".join(overrides).split())
    row: Row = {"training_s": time.process_time() - began}
    metrics = json.loads((trained.path.parents[1] / "metrics.json").read_text())
    row["validation_mse"] = metrics["validation_mse"]  # of the model before it is trained on all rows
    for baseline in (None, "linear"):
        began = time.process_time()
        scores = benchmark.score(
            task, values, lambda origin, name=baseline: predict(task, trained, inputs, origin, name)
        )
        scores["inference_s"] = time.process_time() - began
        row |= {"linear": scores} if baseline else scores
    filled = scored.ffill().to_numpy(np.float64)[:, : values.shape[1]]
    row["seasonal_naive"] = benchmark.score(
        task, values, lambda origin: benchmark.naive(filled[:origin], task.horizon, task.season)
    )
    return row


def train(task: Task, rows: pd.DataFrame, overrides: list[str]) -> Model:
    """Train on nine deciles: the epoch is selected on the last rows, then the model is trained on all rows."""
    common: dict[str, Any] = {
        "attention": "full", "seq_len": task.seq_len, "pred_len": task.horizon, "loss": "quantile",
        "levels": list(LEVELS), "refit": "full",
    }  # fmt: skip
    quiet = ["logger=[]", "pictures=false"]
    if task.covariates:
        names = [name for name in rows if name != TARGET]
        own = [*quiet, "data.split=[0.8,0.15,0.05]", *overrides]
        return fit(rows, target=TARGET, future_covariates=names, **common, overrides=own)
    # The test, whose scores are not read, has one window. Validation has the rows before it.
    test = len(rows) - task.horizon
    n_validation = max(int(VALIDATION_SHARE * len(rows)), 3 * task.horizon)
    stride = max(1, n_validation * len(rows.columns) // VALIDATION_SEQUENCES)
    split = ",".join(f"'{rows.index[row]}'" for row in (test - n_validation, test))
    own = [
        *quiet, "model.tokens=independent", "trainer.max_epochs=6", f"data.split=[{split}]",
        f"data.eval_stride={stride}", *overrides,
    ]  # fmt: skip
    frame, layout = arrange_rows(task, rows)
    windows = SERIES_WINDOWS if layout else TABLE_WINDOWS
    return fit(frame, **layout, **common, windows_per_epoch=windows, overrides=own)


def arrange_rows(task: Task, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the frame of `fit` and `predict`, and the arguments of `fit` that describe it.

    The columns of a table begin together. The series of M4 do not, and are rows of a long frame.
    """
    if not task.is_long:
        return rows, {}
    frame = rows.T.rename_axis(index=SERIES).melt(var_name=DATE, value_name=VALUE, ignore_index=False)
    return frame.reset_index().dropna(), {"target": VALUE, "id_column": SERIES, "date_column": DATE}


def predict(task: Task, trained: Model, rows: pd.DataFrame, origin: int, baseline: str | None) -> Deciles:
    """Forecast the steps from a row on."""
    past = rows.iloc[max(0, origin - CONTEXT * task.seq_len) : origin]
    if task.covariates:
        future = rows.iloc[origin : origin + task.horizon].drop(columns=TARGET)
        found = trained.predict(past, future=future, levels=LEVELS, baseline=baseline)
        return stack_deciles(found, TARGET)[:, None]
    frame, layout = arrange_rows(task, past)
    found = trained.predict(frame, levels=LEVELS, baseline=baseline)
    if layout:
        return np.stack([stack_deciles(found.loc[name], VALUE) for name in past], axis=1)
    return np.stack([stack_deciles(found, name) for name in past], axis=1)


def stack_deciles(forecast: pd.DataFrame, target: str) -> np.ndarray:
    """Return the deciles of a forecast in ascending order: (horizon, 9)."""
    low = [f"{target}-lo-{level}" for level in reversed(LEVELS)]
    return forecast[[*low, target, *(f"{target}-hi-{level}" for level in LEVELS)]].to_numpy(np.float64)


def tabulate_ours(rows: list[Row]) -> pd.DataFrame:
    """Return one row for each task and model; the linear baseline is that of the first model of the same transform."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        model, *changes = row["model"].split()
        label = "default model" if model == "residual_informer" else f"`model={model}`"
        change = "".join(f", `{text}`" for text in changes)
        of_linear = "".join(f", `{text}`" for text in changes if text.startswith("data.transform"))
        for name, scores in ((f"{label}{change}", row), (f"{LINEAR}{of_linear}", row.get("linear"))):
            if scores is not None:  # the linear baseline may be that of another model of the task
                seconds = row["training_s"] + scores["inference_s"]
                found.setdefault((row["task"], name), {**scores, "seconds": seconds})
    return pd.DataFrame([{**row, "task": task, "model": model} for (task, model), row in found.items()])


def rank_models(table: str, rows: list[Row], file: Path) -> pd.DataFrame:
    """Return all models, the best first, with their combined and single scores; `ours` tells which ones are ours.

    Args:
        file: published scores. fev_bench: a concatenation of the result files of github.com/autogluon/fev.
            gift_eval: the columns model, dataset, MASE and CRPS of those of github.com/SalesforceAIResearch/gift-eval.

    Raises:
        ValueError: the seasonal naive differs from the published one, so the data differ.
    """
    benchmark, ours = BENCHMARKS[table], tabulate_ours(rows)
    published = pd.read_csv(file).rename(columns=benchmark.columns)
    published = published.loc[~published["model"].isin(LEAKING)].replace({"model": {"seasonal_naive": NAIVE}})
    if "training_time_s" in published:
        published["seconds"] = published["training_time_s"] + published["inference_time_s"]
    naive = published[published["model"] == NAIVE].set_index("task")["MASE"]
    for row in rows:
        if abs(row["seasonal_naive"]["MASE"] - naive[row["task"]]) > 1e-4:
            raise ValueError(f"{row['task']}: the seasonal naive differs from the published one: check the files")
    names = [task.name for task in TASKS[table] if task.name in set(ours["task"])]
    combined = [name for name in names if name.startswith(benchmark.combined)]
    every, ranking = pd.concat([published, ours]), pd.DataFrame()
    for metric in benchmark.metrics:
        scores = pd.DataFrame(every.pivot(index="model", columns="task", values=metric)[names])
        used = scores[combined]
        if benchmark.relative:
            used = np.log(used / used.loc[NAIVE])
        mean = used.mean(axis=1, skipna=False) if metric == "SQL" else used.mean(axis=1)
        ranking[metric] = np.exp(mean) if benchmark.relative else mean
        ranking[f"rank by {metric}"] = ranking[metric].rank(method="min")
        if metric == benchmark.metrics[0]:
            details = scores
    ranking = ranking.join(details).dropna(subset=benchmark.metrics[0]).sort_values(benchmark.metrics[0])
    ranking["seconds"] = every[every["task"].isin(combined)].groupby("model")["seconds"].sum(min_count=1)
    ranking.insert(0, "ours", [model in set(ours["model"]) for model in ranking.index])
    return ranking


def write_ranking(table: str, rows: list[Row], file: Path, out: Path) -> None:
    """Write the ranking beside the results as a CSV file."""
    rank_models(table, rows, file).round(6).to_csv(out, lineterminator="\n")
