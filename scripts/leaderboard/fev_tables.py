"""The tasks of fev-bench that forecast all columns of tables without covariates, their scores and their page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from leaderboard.gift_scores import Forecast
from leaderboard.gift_settings import LENGTHS, MISSING, STEPS
from leaderboard.page import bold, check_scores, describe_hardware
from leaderboard.scores import repeat_season, score_window
from tables import markdown_table


@dataclass(frozen=True)
class TableTask:
    """Tables whose columns are all forecast, at evenly spaced origins at the end of the rows.

    Attributes:
        name: of the task in fev-bench.
        dataset: `jena_weather`, or `ett` for two tables with the same dates.
        files: below the folder of the data.
        freq: a key of `STEPS`; rows of shorter steps are averaged, without a last step that is incomplete.
        horizon: steps of a forecast, and steps between two origins.
        windows: number of origins.
        season: steps of the scale of the errors.
        naive_season: steps of the published seasonal naive.
    """

    name: str
    dataset: str
    files: tuple[str, ...]
    freq: str
    horizon: int
    windows: int
    season: int
    naive_season: int

    @property
    def seq_len(self) -> int:
        """Steps that our models read: those of GIFT-Eval."""
        return LENGTHS[self.freq]

    def read(self, root: Path) -> pd.DataFrame:
        """Read the scored rows: one column for each series."""
        return self.resample(self.read_rows(root))

    def read_inputs(self, root: Path) -> pd.DataFrame:
        """Read the rows that models are given, in which -9999 is missing."""
        return self.resample(self.read_rows(root).replace(MISSING, np.nan))

    def read_rows(self, root: Path) -> pd.DataFrame:
        """Read the files on a complete grid of dates."""
        tables = {}
        for file in self.files:
            table = pd.read_csv(root / file, encoding="latin-1", index_col=0, parse_dates=True)
            tables[file.removesuffix(".csv")] = table.loc[~table.index.duplicated()]
        rows = pd.concat(tables, axis=1)
        rows.columns = [" ".join(names) for names in rows.columns]
        return rows.asfreq("10min") if self.dataset == "jena_weather" else rows

    def resample(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return means over the steps of the task."""
        groups = rows.resample(STEPS[self.freq])
        sizes = groups.size()
        return groups.mean().iloc[: -1 if sizes.iloc[-1] < sizes.max() else None]

    def origins(self, n_rows: int) -> range:
        """Return the rows of the first step of each forecast."""
        return range(n_rows - self.windows * self.horizon, n_rows, self.horizon)


def list_tasks() -> dict[str, TableTask]:
    """Return the tasks by name.

    ETT_1D and ETT_1W are left out, because no mean of these files has the published scores, and jena_weather_1D,
    because the 58 days before its first origin are too few for windows of 60 days.
    """
    jena = ("jena_weather", ("weather.csv",))
    tasks = (
        TableTask("ETT_15T", "ett", ("ETTm1.csv", "ETTm2.csv"), "15T", 96, 20, 96, 96),
        TableTask("ETT_1H", "ett", ("ETTh1.csv", "ETTh2.csv"), "H", 168, 20, 24, 24),
        TableTask("jena_weather_10T", *jena, "10T", 144, 20, 144, 144),
        TableTask("jena_weather_1H", *jena, "H", 24, 20, 24, 24),
    )
    return {task.name: task for task in tasks}


TABLE_TASKS = list_tasks()
LABELS = {
    "mlp": "`model=mlp`",
    "patch_encoder": "`model=patch_encoder`",
    "linear baseline": "linear baseline",
}

HEAD = """\
# Tables of fev-bench

Scores of this program among those that [fev-bench](https://github.com/autogluon/fev) publishes, on its tasks that
forecast all columns of the transformer tables ETT and of the weather of Jena in 2020. `scripts/leaderboards fev_tables`
runs them and writes this page. Tasks with covariates have [a page of their own](fev_bench.md). ETT_1D and ETT_1W are
left out, because no daily or weekly mean of the public files has the published scores, and jena_weather_1D, because
only 58 days lie before its first origin.

SQL is the mean quantile loss of the deciles, divided by the mean absolute difference of values that are a season apart,
before each origin. It is averaged over the columns, then over the origins. Lower is better.

Each of our models is trained once for a task, on the rows before its first origin, with the rules of
[GIFT-Eval](gift_eval.md), where it is also said which test errors were visible. −9999 in the weather is missing for our
models, but is scored as fev-bench does. The linear baseline comes from the run of `model=mlp`, so its seconds include
the training of the perceptron; it was fitted without the validation rows.
"""


def score_table(
    task: TableTask, values: Float64[np.ndarray, "rows series"], forecast: Forecast
) -> dict[str, float]:
    """Return SQL and MASE as means over the series, then over the origins. Series with a constant past do not count."""
    scores = []
    for origin in task.origins(len(values)):
        past, truth, deciles = values[:origin], values[origin : origin + task.horizon], forecast(origin)
        series = range(values.shape[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            each = [score_window(past[:, i], truth[:, i], deciles[:, i], task.season) for i in series]
        scores.append(pd.DataFrame(each).replace(np.inf, np.nan).mean())
    means = pd.DataFrame(scores).mean()
    return {name: float(means.loc[name]) for name in ("SQL", "MASE")}


def score_naive(task: TableTask, table: pd.DataFrame) -> dict[str, float]:
    """Return the scores of the seasonal naive, whose MASE must equal the published one."""
    filled = table.ffill().to_numpy(dtype=np.float64)
    return score_table(
        task,
        table.to_numpy(dtype=np.float64),
        lambda origin: np.stack(
            [repeat_season(past, task.horizon, task.naive_season) for past in filled[:origin].T], axis=1
        ),
    )


def write_page(content: dict[str, Any], published: pd.DataFrame) -> str:
    """Return the page from our rows and the published ones."""
    ours = pd.DataFrame(content["rows"]).replace({"model": LABELS})
    names = [name for name in TABLE_TASKS if name in set(ours["task"])]
    every = pd.concat([published, ours.rename(columns={"model": "model_name", "task": "task_name"})])
    scores = every.pivot(index="model_name", columns="task_name", values="SQL")[names]
    relative = np.exp(np.log(scores / scores.loc["Seasonal Naive"]).mean(axis=1, skipna=False)).sort_values()
    ours = ours.assign(seconds=ours["training_s"] + ours["inference_s"])
    seconds = {str(model): group["seconds"].sum() for model, group in ours.groupby("model")}
    order = [str(model) for model in relative.dropna().index]
    labels = {*LABELS.values()}
    lines = [
        [str(place), bold(model, model in labels), f"{relative[model]:.3f}",
         *(f"{scores.loc[model, name]:.3f}" for name in names),
         f"{seconds[model]:,.0f}" if model in seconds else ""]
        for place, model in enumerate(order, 1)
    ]  # fmt: skip
    return "\n\n".join(
        [
            HEAD.strip(),
            "Geometric mean of SQL relative to the seasonal naive, and SQL of each task; seconds of the processor:",
            "\n".join(markdown_table(["rank", "model", "relative", *names, "seconds"], lines)),
            check_scores(content, published),
            describe_hardware(content),
        ]
    )
