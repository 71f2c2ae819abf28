"""Sort runs into tasks, which alone can be compared, and into variants, whose runs differ in the seed alone."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from forecast.comparison.naming import settings_in_text, told_apart, variant_names
from forecast.comparison.runs import Run
from forecast.significance import Difference, against, by_date
from forecast.sweep import maps_alone, mean_and_deviation

BASELINES = {"naive": "naive", "seasonal_naive": "seasonal naive", "linear": "linear map"}
FITTED_TO = {"seasonal_naive": "data.season", "linear": "seq_len"}  # what changes a baseline's answer


@dataclass(frozen=True, eq=False)
class Entry:
    """A line of the comparison: a variant with its runs (a seed each), or a baseline as one run measured it."""

    name: str
    runs: Sequence[Run]
    column: str = "model"  # in the runs' tables

    @property
    def is_baseline(self) -> bool:
        return self.column != "model"

    def values(self, score: str) -> list[float]:
        """A test score or a cost of each run, NaN where it is unknown."""
        found = []
        for run in self.runs:
            scores = run.metrics["baselines"][self.column] if self.is_baseline else run.metrics["test"]
            value = scores.get(score) if self.is_baseline else scores.get(score, run.metrics.get(score))
            found.append(math.nan if value is None else float(value))
        return found

    def spread(self, score: str) -> tuple[float, float]:
        """Mean and deviation over seeds."""
        return mean_and_deviation(self.values(score))

    def mean(self, score: str) -> float:
        return self.spread(score)[0]

    @cached_property
    def losses(self) -> np.ndarray:
        """MSE of each test window, the mean over seeds (n_windows,)."""
        return np.mean([run.windows[f"{self.column}_mse"].to_numpy(float) for run in self.runs], axis=0)

    @cached_property
    def chain(self) -> np.ndarray:
        """The losses in the order of time, one a date that is forecast first (n_dates,): see `by_date`."""
        windows = self.runs[0].windows
        if "unique_id" not in windows:
            return self.losses
        return by_date(self.losses, windows["forecast_start"].to_numpy())

    @cached_property
    def by_step(self) -> np.ndarray:
        """MSE at each step of the horizon, the mean over seeds (pred_len,)."""
        return np.mean([run.steps[f"{self.column}_mse"].to_numpy(float) for run in self.runs], axis=0)

    @cached_property
    def by_variable(self) -> np.ndarray:
        """MSE of each variable, the mean over seeds (n_targets,)."""
        return np.mean([run.variables[f"{self.column}_mse"].to_numpy(float) for run in self.runs], axis=0)


@dataclass(frozen=True, eq=False)
class Task:
    """Runs that forecast the same test windows, on the same scale.

    `variants` and `baselines` are in the order of their MSE. `settings` holds the values that tell the variants
    apart, by variant and the setting's short name; `shared` what all have in common.
    """

    title: str
    variants: list[Entry]
    baselines: list[Entry]
    settings: dict[str, dict[str, str]]
    shared: dict[str, str]

    @property
    def best(self) -> Entry:
        return self.variants[0]

    @property
    def best_baseline(self) -> Entry:
        return self.baselines[0]

    @property
    def first_run(self) -> Run:
        return self.best.runs[0]

    @property
    def pred_len(self) -> int:
        return int(self.first_run.metrics["pred_len"])

    @property
    def overlap(self) -> int:
        """Neighbouring losses that share steps: the horizon, in windows.

        Of many series, whose windows may lie one step apart whatever the stride, at most so many.
        """
        many = "unique_id" in self.first_run.windows
        stride = 1 if many else int(self.first_run.metrics.get("eval_stride") or 1)
        return math.ceil(self.pred_len / stride)

    @property
    def maps_alone(self) -> str:
        """What is to be said of runs whose attention has no part in their scores."""
        return maps_alone([run.metrics for entry in self.variants for run in entry.runs])

    def skill(self, entry: Entry) -> list[float]:
        """1 − MSE / the best baseline's MSE of each run; NaN where that baseline makes no error."""
        rival = self.best_baseline.mean("mse")
        return [1 - mse / rival if rival > 0 else math.nan for mse in entry.values("mse")]

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """By name: each variant's window losses less the best variant's, and so each baseline's."""
        best = {self.best.name: self.best.chain}
        variants = {entry.name: entry.chain for entry in self.variants}
        rules = {entry.name: entry.chain for entry in self.baselines}
        return {
            **against(self.best.name, variants, self.overlap),
            **against(self.best.name, best | rules, self.overlap),
        }


def tasks(runs: Iterable[Run]) -> list[Task]:
    """The tasks in the order of their titles."""
    groups: list[list[Run]] = []
    for run in runs:
        for group in groups:
            if is_same_task(group[0], run):
                group.append(run)
                break
        else:
            groups.append([run])
    titles = [title(group[0]) for group in groups]
    for name in {name for name in titles if titles.count(name) > 1}:
        same = [i for i, other in enumerate(titles) if other == name]
        told = told_apart([settings_in_text(groups[i][0]) for i in same], under="data.")
        for number, (i, values) in enumerate(zip(same, told, strict=True), start=1):
            titles[i] += ", " + (", ".join(f"{k}={v}" for k, v in values.items()) or f"data {number}")
    made = [make_task(*pair) for pair in zip(titles, groups, strict=True)]
    return sorted(made, key=lambda task: (task.title.split(",")[0], task.pred_len, task.title))


def is_same_task(one: Run, other: Run) -> bool:
    """The same windows of the same values, scaled alike: the naive forecast errs alike in every one of them."""
    keys = ("data", "features", "pred_len")
    a, b = one.windows, other.windows
    return (
        all(one.metrics[key] == other.metrics[key] for key in keys)
        and len(a) == len(b)
        and ids(a) == ids(b)
        and bool((a["forecast_start"].to_numpy() == b["forecast_start"].to_numpy()).all())
        and list(one.variables["variable"]) == list(other.variables["variable"])
        and np.allclose(a["naive_mse"], b["naive_mse"], rtol=1e-3, atol=1e-9)
    )


def ids(windows: pd.DataFrame) -> list[str]:
    """The series that the windows lie in, in their order; of one table none."""
    return list(map(str, windows["unique_id"].unique())) if "unique_id" in windows else []


def title(run: Run) -> str:
    metrics = run.metrics
    data = metrics["data"] if metrics["data"] not in ("csv", "long", "store") else run.source
    return f"{data}, {metrics['pred_len']} steps ahead, features={metrics['features']}"


def make_task(title: str, runs: list[Run]) -> Task:
    texts = {run: settings_in_text(run) for run in runs}
    if len({run.source for run in runs}) > 1:  # files that differ in rows before the test's alone
        texts = {run: {**text, "data.path": run.source} for run, text in texts.items()}
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(repr(sorted(texts[run].items())), []).append(run)
    members = [sorted(group, key=lambda run: run.metrics["seed"]) for group in groups.values()]
    configurations = [texts[group[0]] for group in members]
    told, rules = told_apart(configurations), baselines(runs)
    names = variant_names(told, configurations, taken=[rule.name for rule in rules])
    variants = [Entry(name, group) for name, group in zip(names, members, strict=True)]
    everywhere = texts[runs[0]].items()
    return Task(
        title,
        sorted(variants, key=lambda entry: entry.mean("mse")),
        rules,
        dict(zip(names, told, strict=True)),
        {key: value for key, value in everywhere if all(text.get(key) == value for text in texts.values())},
    )


def baselines(runs: list[Run]) -> list[Entry]:
    """The simple rules, each once; more often where runs fitted it differently, to another `seq_len` for one."""
    found: dict[str, Entry] = {}
    picturable = sorted(runs, key=lambda run: not run.has_forecasts)  # those first
    for column, name in BASELINES.items():
        answers: dict[str, Run] = {}
        for run in picturable:
            answers.setdefault(f"{run.metrics['baselines'][column]['mse']:.4g}", run)
        for run in answers.values():
            setting = FITTED_TO.get(column)
            suffix = f" ({setting}={run.settings.get(setting)})" if setting and len(answers) > 1 else ""
            found.setdefault(f"{name}{suffix}", Entry(f"{name}{suffix}", [run], column))
    return sorted(found.values(), key=lambda entry: entry.mean("mse"))
