"""The CSV tables of a comparison: every score of every variant and baseline, and the effect of one setting."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from forecast.reports.compare.factors import Factor
from forecast.reports.compare.task import (
    COSTS,
    SCORE_COLUMNS,
    Entry,
    Task,
    collect_interval_scores,
    get_values,
    get_verdict,
    is_worse_than_baseline,
)
from forecast.runs.summary import mean_and_std


def format_csv(tasks: Iterable[Task]) -> str:
    """Return one row per variant and baseline as CSV."""
    rows = [row for task in tasks for row in make_rows(task)]
    return pd.DataFrame(rows).map(escape_formula).to_csv(index=False)


def format_factor_csv(factor: Factor) -> str:
    """Return one row per value of the factor as CSV: its error relative to the best value's, skill, cost and ranks."""
    rows = []
    for level in factor.levels:
        difference = factor.differences.get(level)
        low, high = difference.relative_interval() if difference else (math.nan, math.nan)
        skill, skill_low, skill_high = factor.skill(level)
        rows.append(
            {
                factor.name: level,
                "verdict": factor.verdict(level),
                "comparisons": len(factor.cells),
                "tasks": len(factor.tasks),
                "difference": difference.mean if difference else 0.0,
                "difference_low": low,
                "difference_high": high,
                "p_adjusted": difference.adjusted_p_value if difference else math.nan,
                "skill": skill,
                "skill_low": skill_low,
                "skill_high": skill_high,
                "relative_time": factor.relative_cost(level),
                "win_rate": factor.win_rate(level),
                "average_rank": factor.average_rank(level),
            }
        )
    return pd.DataFrame(rows).map(escape_formula).to_csv(index=False)


def make_rows(task: Task) -> Iterator[dict[str, Any]]:
    """Yield the scores, costs, test result and settings of each variant and baseline."""
    metrics = task.first_run.metrics
    intervals = collect_interval_scores(task)
    for entry in task.entries:
        row: dict[str, Any] = {
            "task": task.title, "data": metrics["data"], "features": metrics["features"],
            "pred_len": task.pred_len, "test_windows": len(task.best.losses), "name": entry.name,
            "kind": "baseline" if entry.is_baseline else "variant", "seeds": len(entry.runs),
        }  # fmt: skip
        for column in (*SCORE_COLUMNS, *COSTS):
            mean, deviation = mean_and_std(get_values(task, entry, column))
            row |= {column.key: mean, f"{column.key}_dev": deviation}
        difference = task.differences.get(entry.name) if entry is not task.reference else None
        low, high = difference.interval() if difference else (math.nan, math.nan)
        row |= {
            "tested_score": entry.score,
            "reference": task.reference.name,
            "difference": difference.mean if difference else 0.0,
            "difference_low": low,
            "difference_high": high,
            "p_value": difference.p_value if difference else math.nan,
            "p_adjusted": difference.adjusted_p_value if difference else math.nan,
            "verdict": get_verdict(task, entry),
            "worse_than_best_baseline": is_worse_than_baseline(task, entry),
        }
        for method, scores in intervals.get(entry.name, {}).items():
            row |= {f"{method}_{name}": value for name, (value, _) in scores.items()}
        yield row | join_settings(task, entry)


def join_settings(task: Task, entry: Entry) -> dict[str, str]:
    """Return the settings of an entry; of equal variants, all values of a setting."""
    members = [task.settings.get(member.name, {}) for member in entry.equal or [entry]]
    return {key: " = ".join(dict.fromkeys(one[key] for one in members)) for key in members[0]}


def escape_formula(value: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula, because names may come from other people's files."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value
