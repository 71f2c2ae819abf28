"""The numbers of a comparison: its columns, what the test says, everything as rows, and numbers as text."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forecast.comparison.tasks import Entry, Task
from forecast.rounding import decimals
from forecast.sweep import mean_and_deviation

LEVEL = 0.05  # of significance
FEWEST = 3  # degrees of freedom with which a test that finds nothing says something
TIED, UNTOLD = "not told apart", "too few windows to tell"


@dataclass(frozen=True)
class Column:
    """A score or a cost: its name in the runs' metrics, what stands above it, and what it is."""

    key: str
    heading: str
    meaning: str
    better: int = -1  # -1: lower is better; 1: higher; 0: neither


SCORES = (
    Column("mse", "MSE", "mean squared error of scaled values; the order of the table"),
    Column("mae", "MAE", "mean absolute error of scaled values"),
    Column("skill", "skill", "1 − MSE / the best baseline's; below zero: worse than that baseline", 1),
    Column("rmse_raw", "RMSE, units", "root of the mean squared error in the data's units"),
    Column("mae_raw", "MAE, units", "mean absolute error in the data's units"),
    Column("smape", "sMAPE", "symmetric percentage error, 0 to 200"),
    Column("wape", "WAPE", "absolute errors' sum over the sum of absolute values"),
    Column("mase", "MASE", "MAE over the seasonal naive MAE of the training rows"),
)
COSTS = (
    Column("ms_per_window", "ms a window", "time of one test window's forecast, model only, in milliseconds"),
    Column("peak_memory_mb", "peak MiB", "most memory that the run held, training included"),
    Column("n_parameters", "parameters", "weights that are trained"),
    Column("seconds", "seconds", "time of the whole run"),
    Column("windows_per_second", "windows/s", "training windows a second", 1),
    Column("epochs", "epochs", "epochs trained", 0),
)


def entries(task: Task) -> list[Entry]:
    """Variants and baselines in the order of their MSE."""
    return sorted([*task.variants, *task.baselines], key=lambda entry: entry.mean("mse"))


def values(task: Task, entry: Entry, column: Column) -> list[float]:
    return task.skill(entry) if column.key == "skill" else entry.values(column.key)


def best_of(task: Task, column: Column) -> float:
    """The best mean among the variants, NaN where there is none."""
    means = [mean_and_deviation(values(task, entry, column))[0] for entry in task.variants]
    known = [mean for mean in means if not math.isnan(mean)]
    return (min(known) if column.better < 0 else max(known)) if column.better and known else math.nan


def leads(task: Task, entry: Entry, mean: float, best: float) -> bool:
    """Whether a variant has the best mean of a column, where there are several."""
    return not entry.is_baseline and mean == best and len(task.variants) > 1


def verdict(task: Task, entry: Entry) -> str:
    """What the test says of an entry beside the best variant."""
    if entry is task.best:
        return "best"
    difference = task.differences[entry.name]
    if math.isnan(difference.p_value):
        return UNTOLD
    if difference.adjusted >= LEVEL:
        return UNTOLD if difference.freedom < FEWEST else TIED
    return "worse" if difference.mean > 0 else "better"


def loses(task: Task, entry: Entry) -> bool:
    """Whether a variant has more error than the best baseline."""
    return not entry.is_baseline and entry.mean("mse") > task.best_baseline.mean("mse")


def rows(task: Task) -> Iterator[dict[str, Any]]:
    """Everything known of each variant and baseline, one row each."""
    metrics = task.first_run.metrics
    intervals = interval_scores(task)
    for entry in entries(task):
        row: dict[str, Any] = {
            "task": task.title, "data": metrics["data"], "features": metrics["features"],
            "pred_len": task.pred_len, "test_windows": len(task.best.losses), "name": entry.name,
            "kind": "baseline" if entry.is_baseline else "variant", "seeds": len(entry.runs),
        }  # fmt: skip
        for column in (*SCORES, *COSTS):
            row[column.key], row[f"{column.key}_dev"] = mean_and_deviation(values(task, entry, column))
        difference = task.differences.get(entry.name)
        row |= {
            "mse_less_best": difference.mean if difference else 0.0,
            "p_value": difference.p_value if difference else math.nan,
            "p_adjusted": difference.adjusted if difference else math.nan,
            "verdict": verdict(task, entry),
            "worse_than_best_baseline": loses(task, entry),
        }
        for method, scores in intervals.get(entry.name, {}).items():
            row |= {f"{method}_{name}": value for name, (value, _) in scores.items()}
        yield row | task.settings.get(entry.name, {})


def no_formula(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula: other people's names stand in a comparison."""
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
    )


def interval_scores(task: Task) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Of each variant and method of intervals, mean and deviation of its scores, where runs have any."""
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for entry in task.variants:
        known = [run.metrics.get("intervals") or {} for run in entry.runs]
        for method in dict.fromkeys(name for intervals in known for name in intervals):
            flat = [flattened(intervals[method]) for intervals in known if method in intervals]
            found.setdefault(entry.name, {})[method] = {
                name: mean_and_deviation([scores.get(name) for scores in flat]) for name in flat[0]
            }
    return found


def flattened(scores: dict[str, Any]) -> dict[str, float | None]:
    """`{"80": {"coverage": c}, "crps": s}` as `{"coverage_80": c, "crps": s}`."""
    flat = {}
    for name, value in scores.items():
        flat |= {f"{k}_{name}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def number(mean: float, deviation: float = math.nan) -> str:
    """A mean with the decimals that its size asks for, and its deviation with as many."""
    if math.isnan(mean):
        return "–"
    size = abs(mean)
    if mean == int(mean) and not deviation > 0:
        return f"{mean:,.0f}".replace("-", "−")
    if 0 < size < 0.001:
        return f"{mean:.2e}".replace("-", "−") + ("" if math.isnan(deviation) else f" ± {deviation:.1e}")
    places = decimals(size)
    text = f"{mean:,.{places}f}".replace("-", "−")
    return text if math.isnan(deviation) else f"{text} ± {deviation:,.{places}f}"


def date_format(dates: np.ndarray) -> str:
    """How to write dates so that no two become one: with seconds only where they are not all whole minutes."""
    index = pd.DatetimeIndex(dates)
    if (index == index.floor("min")).all():
        return "%Y-%m-%d %H:%M"
    return "%Y-%m-%d %H:%M:%S" if (index == index.floor("s")).all() else "%Y-%m-%d %H:%M:%S.%f"


def counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def probability(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
