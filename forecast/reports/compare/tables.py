"""The findings and the tables of a comparison: as `Table` for people, and as rows of a CSV file."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from forecast import __version__
from forecast.evaluation.scores import LINEAR_ALONE, SCORES
from forecast.evaluation.significance import count_cosines
from forecast.reports.compare.run_folders import ExcludedRun
from forecast.reports.compare.task import (
    EQUAL,
    LOWEST,
    NO_DIFFERENCE,
    NOT_SIGNIFICANT,
    ONE_SEED,
    TOO_FEW,
    Entry,
    Task,
    mean_and_std,
)
from forecast.reports.tables import (
    MISSING,
    Cell,
    Column,
    Table,
    format_interval,
    format_number,
    format_p_value,
    format_percent,
    print_lines,
    print_table,
)
from forecast.system.formatting import format_tokens, plural, shorten

EQUIVALENCE_MARGIN = 0.05  # highest end of the 95% interval of an equivalent variant's difference
MAX_NAMED = 3  # equivalent variants that an answer names

SKILL = Column("skill", "skill", "1 − error / error of the best baseline; negative: worse than that baseline", "higher")
SCORE_COLUMNS = [
    Column(name, score.label if score.unit == "scaled" else score.heading("{} ({})"), score.meaning, "lower")
    for name, score in SCORES.items()
]
SCORE_COLUMNS.insert(2, SKILL)
COSTS = (
    Column("ms_per_window", "ms/window", "inference time per test window in milliseconds, model only", "lower"),
    Column("mflops_per_window", "MFLOPs/window", "million operations of matrix products and convolutions", "lower"),
    Column("peak_memory_mb", "peak memory (MiB)", "peak memory of the GPU in the run, training included", "lower"),
    Column("n_parameters", "parameters", "number of trainable parameters", "lower"),
    Column("seconds", "run time (s)", "time of the whole run in seconds", "lower"),
    Column("windows_per_second", "training windows/s", "training windows per second", "higher"),
    Column("epochs", "epochs", "number of epochs trained"),
)  # fmt: skip
NAME = Column("name", "variant", "settings in which the variants differ; baselines are in italics")
NOTE = "Mean and standard deviation over seeds. Bold: best variant of the column. Italics: baselines."
VERDICT_STYLES = {LOWEST: "leads", "worse": "bad", "better": "good"}
TEST = ("change", "interval", "p")
SHORT = {  # columns of the terminal, of papers and of READMEs, beside the tested score
    "name", "seeds", "mse", "mae", "skill", *TEST, "ms_per_window", "peak_memory_mb", "n_parameters", "verdict",
}  # fmt: skip
LEFT_OUT = (  # columns that a narrow terminal leaves out, in this order, but for the tested score
    "n_parameters", "peak_memory_mb", "p", "mse", "mae", "skill", "ms_per_window", "seeds",
)  # fmt: skip


# ---- findings


def is_equivalent(task: Task, entry: Entry) -> bool:
    """Return whether the error is that of the best variant, or at most `EQUIVALENCE_MARGIN` higher (95%)."""
    verdict = task.get_verdict(entry)
    if verdict != NOT_SIGNIFICANT:
        return verdict == EQUAL
    return task.differences[entry.name].relative_interval()[1] <= EQUIVALENCE_MARGIN


def describe_choice(task: Task) -> str:
    """Return which variant to use, the names of those level with the best one, and the numbers of the others.

    The fastest of the best variant and the equivalent ones is recommended: all its times are lower than all times of
    the best one. If only inconclusive variants are close to the best one, or some could not be tested, none is.
    """
    best, *others = task.variants
    equivalent = [each for each in others if is_equivalent(task, each)]
    counts = Counter(task.get_verdict(each) for each in others if each not in equivalent)
    lowest = f"lowest {task.score_label}, {format_number(*mean_and_std(best.values(best.score)))}"
    use = "Of the variants, use" if task.is_baseline_better else "Use"
    is_open = counts[ONE_SEED] or counts[TOO_FEW] or (counts[NOT_SIGNIFICANT] and not equivalent)
    faster = [each for each in equivalent if not is_open and np.max(each.times) < np.min(best.times)]
    used = min(faster, key=lambda each: fmean(each.times), default=best)
    if is_open:
        first = f"No variant is known to be the best: {best.name} has the {lowest}{describe_time(best)}."
    elif used is best:
        first = f"{use} {best.name}: {lowest}{describe_time(best)}."
    else:
        difference, change = task.differences[used.name], "the same error as"
        if task.get_verdict(used) != EQUAL:
            percent = format_percent(difference.mean / difference.base)
            change = f"{percent} {format_interval(difference)} against"
        fastest = f"the fastest of {len(equivalent) + 1} equivalent variants{describe_time(used)}"
        first = f"{use} {used.name}: {fastest}, {change} {best.name} ({lowest}{describe_time(best, '; {}')})."
    sentences = [first]
    if names := [each.name for each in equivalent if each is not used]:
        sentences.append(f"Equivalent: {shorten(names, MAX_NAMED)}.")
    meanings = {
        NOT_SIGNIFICANT: f"not told apart from {best.name}",
        "worse": "significantly worse",
        TOO_FEW: "untested (too few windows or seeds)",
        ONE_SEED: f"untested (they or {best.name} have one seed: run seed=1,2,3 or more)",
    }
    if rest := [f"{counts[verdict]} {meanings[verdict]}" for verdict in meanings if counts[verdict]]:
        sentences.append(f"The others: {', '.join(rest)}.")
    return " ".join(sentences)


def describe_time(entry: Entry, form: str = " ({})") -> str:
    """Return the mean inference time, as the table shows it; empty if it is unknown or not comparable."""
    time = fmean(entry.times)
    return "" if math.isnan(time) else form.format(f"{format_number(time)} ms a window")


def describe_task(task: Task) -> list[str]:
    """Return the result in sentences: which variant to use, the baselines, what attention is worth, and the times.

    Where every run kept only its linear model, that is the only finding. The sentences do not depend on the reference.
    """
    task, runs = task.with_best_as_reference, task.runs
    untrained = sum(run.metrics.get("best_epoch") == 0 for run in runs)
    which = "The run" if len(runs) == 1 else f"{untrained} of {len(runs)} runs"
    why = "no epoch was 1% better on validation windows, so attention has no part in the scores"
    linear_only = f"{which} kept only the linear model: {why}." if untrained else ""
    if untrained == len(runs):
        return [linear_only]
    sentences = [describe_choice(task)] if len(task.variants) > 1 else []
    sentences.insert(0 if task.is_baseline_better else len(sentences), describe_baseline(task))
    return [*sentences, *filter(None, (describe_attention(task), linear_only, describe_times(task)))]


def describe_baseline(task: Task) -> str:
    best = task.best_baseline
    baseline = f"the best baseline, {best.name} ({task.score_label} {format_number(best.error)})"
    if task.is_baseline_better:
        return f"Use {baseline}: it is significantly better than every variant."
    winners = sum(fmean(task.skill(entry)) > 0 for entry in task.variants)
    count = plural(len(task.variants), "variant")
    verb = "has" if winners == 1 else "have"
    verdict = task.with_baseline_as_reference.get_verdict(task.best)
    doubt = "" if verdict == "better" else f" ({task.best.name}: {verdict})"
    return f"{winners} of {count} {verb} a lower error than {baseline}{doubt}."


def describe_attention(task: Task) -> str:
    """Return the error that attention removes: that of the best variant against the control `none`.

    It is empty without exactly one variant of the control, or if differences cannot be tested.
    """
    controls = [entry for entry in task.variants if entry.runs[0].metrics["attention"] == "none"]
    others = [entry for entry in task.variants if entry not in controls]
    if len(controls) != 1 or not others:
        return ""
    (control,), best = controls, others[0]
    against = replace(task, reference_name=control.name)
    verdict = against.get_verdict(best)
    if verdict == "worse":
        return f"Attention is worth nothing here: {best.name}, the best of the others, is worse than {control.name}."
    if verdict not in ("better", NOT_SIGNIFICANT):
        return ""
    interval = format_interval(against.differences[best.name], of_decrease=True)
    worth = f"{format_percent(-against.relative_difference(best))} {interval}"
    is_not = "" if verdict == "better" else "; the difference is not significant"
    return (
        f"Attention is worth {worth} of the error here: {best.name} against {control.name}, which mixes no "
        f"tokens{is_not}."
    )


def describe_times(task: Task) -> str:
    """Return how many runs have times that cannot be compared; empty if none."""
    disturbed = task.count_disturbed_runs("seconds")
    why = "other compared runs ran at the same time; forecast.benchmark benchmark=model times attention types in turn"
    return f"Times of {plural(disturbed, 'run')} cannot be compared: {why}." if disturbed else ""


def describe_test(task: Task) -> str:
    """Return how the significance was tested; empty if there is only one variant."""
    if len(task.variants) < 2:
        return ""
    degrees = count_cosines(len(task.best.tested_losses), task.first_run.overlap)
    if degrees == 0:
        return "No test: it needs test windows that span at least two horizons."
    kind = {"mse": "squared error", "mae": "absolute error", "crps": "CRPS"}[task.best.score]
    loss = "of each forecast start, summed over the series" if task.first_run.ids else "of each test window"
    over = "windows and seeds" if task.knows_seeds else "windows alone, as each variant has one seed"
    return (
        f"Two-sided Diebold-Mariano test on the {kind} {loss}, averaged over the seeds of a variant. The variance is "
        f"that over {over}; {plural(degrees, 'cosine term')} of the losses estimate it. p-values and intervals are "
        "corrected step by step (Holm) for all pairs of variants, and of variants and baselines."
    )


# ---- tables


def print_tables(tasks: Sequence[Task], excluded: Sequence[ExcludedRun]) -> None:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200  # keep rows on one line in a file
    for table in map(make_short_table, tasks):
        print_lines(console, table.sentences)
        print_table(table, console, LEFT_OUT)
    print_lines(console, [f"excluded: {run.folder.name}: {run.reason}" for run in excluded])


def make_task_table(task: Task) -> Table:
    """Return the scores, the test and the known costs of the variants and baselines, the tested score first."""
    known = {one.key for one in COSTS for entry in task.variants if np.isfinite(task.get_values(entry, one)).any()}
    costs = [one for one in COSTS if one.key in known]
    tested, *others = sorted(SCORE_COLUMNS, key=lambda column: column.key != task.best.score)
    columns = [
        NAME,
        Column("verdict", "verdict", "result of the test at the 5% significance level"),
        Column("seeds", "seeds", "number of runs that differ only in the seed"),
        tested,
        Column(
            "change",
            f"vs {'best' if task.reference is task.best else task.reference.name}",
            f"{task.score_label} relative to that of {task.reference.name}",
        ),
        Column("interval", "95% interval", "of that difference in percent, corrected for all tests"),
        Column("p", "p", "adjusted p-value of the test"),
        *others,
        *costs,
        Column("tokens", "tokens", "tokens of the attention in each slot; cross: queries × keys"),
    ]
    best = {column.key: task.find_best_mean(column) for column in (*SCORE_COLUMNS, *costs)}
    rows = [(row_style(task, entry), make_cells(task, entry, columns, best)) for entry in task.entries]
    title = f"{task.title}: {plural(len(task.best.losses), 'test window')}"
    note = f"{NOTE} {describe_test(task)}".strip()
    return Table(title, columns, rows, describe_task(task), note, task.best.score)


def make_short_table(task: Task) -> Table:
    """Return the main scores, the test and the costs, for the terminal, papers and READMEs."""
    return make_task_table(task).only(SHORT | {task.best.score})


def row_style(task: Task, entry: Entry) -> str:
    return "baseline" if entry.is_baseline else "best" if entry is task.best else ""


def make_cells(task: Task, entry: Entry, columns: Sequence[Column], best: dict[str, float]) -> list[Cell]:
    """Return the row of an entry. `best` has the best mean of each score and cost."""
    is_worse, verdict = task.is_worse_than_baseline(entry), task.get_verdict(entry)
    beaten = f"; beaten by {task.best_baseline.name}" if is_worse else ""
    cells = {
        "name": Cell.from_text(entry.name),
        "verdict": Cell.from_text(verdict + beaten, VERDICT_STYLES.get(verdict, "tied")),
        "seeds": Cell(MISSING) if entry.is_baseline else Cell.from_number(float(len(entry.runs))),
        "tokens": Cell(describe_tokens(entry)),
        **dict.fromkeys(TEST, Cell(MISSING)),
    }
    if entry is not task.reference:
        difference, change = task.differences[entry.name], task.relative_difference(entry)
        p_value = difference.adjusted_p_value
        cells |= {
            "change": Cell(format_percent(change), None if math.isnan(change) else change),
            "interval": Cell(format_interval(difference)),
            "p": Cell(format_p_value(p_value), None if math.isnan(p_value) else p_value),
        }
    for column in columns:
        if column.key not in cells:
            mean, deviation = mean_and_std(task.get_values(entry, column))
            is_best = not entry.is_baseline and mean == best[column.key] and len(task.variants) > 1
            style = "leads" if is_best else "bad" if column.key == "skill" and is_worse else ""
            cells[column.key] = Cell.from_number(mean, deviation, style)
    return [cells[column.key] for column in columns]


def describe_tokens(entry: Entry) -> str:
    """Return the tokens of each attention slot, such as `encoder 14, decoder 3, cross 3 × 14`."""
    slots = {} if entry.is_baseline else entry.runs[0].metrics.get("attention_slots") or {}
    texts = (f"{k} {format_tokens(slot['role'], slot['queries'], slot['keys'])}" for k, slot in slots.items())
    return ", ".join(texts) or MISSING


def collect_interval_scores(entry: Entry) -> dict[str, dict[str, tuple[float, float]]]:
    """Return mean and standard deviation of a variant's interval scores, by method and score; empty for a baseline."""
    known = [run.metrics.get("intervals") or {} for run in entry.runs if not entry.is_baseline]
    found = {}
    for method in dict.fromkeys(name for intervals in known for name in intervals):
        flat = [flatten_levels(intervals[method]) for intervals in known if method in intervals]
        found[method] = {name: mean_and_std([scores.get(name) for scores in flat]) for name in flat[0]}
    return found


def flatten_levels(scores: dict[str, Any]) -> dict[str, float | None]:
    """Return `{"80": {"coverage": c}, "crps": s}` as `{"coverage_80": c, "crps": s}`."""
    flat = {}
    for name, value in scores.items():
        flat |= {f"{k}_{name}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def make_interval_table(task: Task) -> Table | None:
    """Return the scores of prediction intervals, one row per variant and method; None if no run has any."""
    found = [
        (entry, method, scores) for entry in task.variants for method, scores in collect_interval_scores(entry).items()
    ]
    names = dict.fromkeys(name for *_, scores in found for name in scores)
    if not names:
        return None
    columns = [
        NAME,
        Column("method", "method", "method that made the intervals"),
        *(Column(name, name.replace("_", " "), "scaled, or in original units (raw)") for name in names),
    ]
    rows = []
    for entry, method, scores in found:
        numbers = (Cell.from_number(*scores.get(each, (math.nan, math.nan))) for each in names)
        rows.append(("", [*map(Cell.from_text, (entry.name, method)), *numbers]))
    return Table("Prediction intervals, mean ± standard deviation over seeds", columns, rows)


def make_settings_table(task: Task) -> Table:
    texts = ((entry, (entry.name, *task.settings[entry.name].values())) for entry in task.variants)
    rows = [(row_style(task, entry), [*map(Cell.from_text, of_entry)]) for entry, of_entry in texts]
    columns = [NAME, *(Column(name, name, name) for name in task.settings[task.best.name])]
    return Table("Settings in which the variants differ", columns, rows)


def make_overview_table(tasks: Sequence[Task]) -> Table:
    """Return one row per task: the errors of the variants that all tasks have, and of the best baseline.

    Their average rank over the tasks, 1 for the lowest error in every task, is the last row.
    """
    by_name = [{entry.name.removesuffix(LINEAR_ALONE): entry for entry in task.variants} for task in tasks]
    shared = [name for name in by_name[0] if all(name in entries for entries in by_name)]
    rows = []
    for task, entries in zip(tasks, by_name, strict=True):
        variants = (entries[name] for name in shared)
        errors = ((one, mean_and_std(one.values(one.score))) for one in variants)
        cells = [
            Cell.from_text(task.title.replace(f", {task.pred_len} steps ahead", "")),
            Cell.from_number(float(task.pred_len)),
            *(Cell.from_number(*error, "leads" * (one is task.best)) for one, error in errors),
            Cell.from_number(task.best_baseline.error),
        ]
        rows.append(("", cells))
    if len(tasks) > 1 and len(shared) > 1:
        errors = pd.DataFrame([[entries[name].error for name in shared] for entries in by_name])
        ranks = (Cell(f"{rank:.2f}", rank) for rank in errors.rank(axis=1).mean())
        rows.append(("", [Cell.from_text("average rank"), Cell(MISSING), *ranks, Cell(MISSING)]))
    columns = [Column(name, name) for name in ("data", "horizon", *shared, "best baseline")]
    return Table(f"{tasks[0].score_label} by data set and horizon", columns, rows)


def make_card_table(tasks: Sequence[Task]) -> Table:
    """Return what is needed to repeat the comparison, as far as the run folders say it."""
    runs = [run for task in tasks for run in task.runs]
    finished = sorted(run.metrics["finished"] for run in runs if "finished" in run.metrics)
    machines = [run.metrics["machine"] for run in runs if "machine" in run.metrics]
    shares = [share for machine in machines if (share := machine["used_by_others"]) is not None]
    used = f"{min(shares):.0%} to {max(shares):.0%} of the processors" if shares else MISSING
    times = " ".join(filter(None, dict.fromkeys(map(describe_times, tasks))))
    facts = {
        "compared": f"{plural(len(runs), 'run')}, by forecast {__version__} on {date.today().isoformat()}",
        "commands": shorten(list(dict.fromkeys(run.command or MISSING for run in runs))),
        "seeds": ", ".join(map(str, sorted({run.metrics["seed"] for run in runs}))),
        **{f"test windows of {task.title}": f"hash {task.first_run.test_hash}" for task in tasks},
        "training ended": " to ".join(dict.fromkeys([*finished[:1], *finished[-1:]])) or MISSING,
        "precision": ", ".join(sorted({str(run.metrics.get("precision", MISSING)) for run in runs})),
        "code": list_facts(machines, "forecast {forecast}, commit {commit}"),
        "machine": list_facts(machines, "{device}, {threads} threads, torch {torch}, Python {python}, {system}"),
        "times": times or "no two of these runs overlapped",
        "used by other programs": used,
    }
    rows = [("", [Cell.from_text(name), Cell.from_text(text)]) for name, text in facts.items()]
    return Table("Card of this comparison", [Column("fact", "fact"), Column("value", "value")], rows)


def list_facts(machines: Sequence[Mapping[str, Any]], form: str) -> str:
    return "; ".join(dict.fromkeys(form.format(**machine) for machine in machines)) or MISSING


def format_csv(rows: Iterable[dict[str, Any]]) -> str:
    return pd.DataFrame(rows).map(escape_formula).to_csv(index=False)


def escape_formula(value: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula, because names may come from other people's files."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


def make_rows(tasks: Iterable[Task]) -> Iterator[dict[str, Any]]:
    """Yield the scores, costs, test result and settings of each variant and baseline of the tasks."""
    for task in tasks:
        metrics = task.first_run.metrics
        for entry in task.entries:
            row: dict[str, Any] = {
                "task": task.title, "data": metrics["data"], "features": metrics["features"],
                "pred_len": task.pred_len, "test_windows": len(task.best.losses), "name": entry.name,
                "kind": "baseline" if entry.is_baseline else "variant", "seeds": len(entry.runs),
            }  # fmt: skip
            for column in (*SCORE_COLUMNS, *COSTS):
                mean, deviation = mean_and_std(task.get_values(entry, column))
                row |= {column.key: mean, f"{column.key}_dev": deviation}
            difference = task.differences.get(entry.name, NO_DIFFERENCE)
            low, high = difference.interval()
            row |= {
                "tested_score": entry.score, "reference": task.reference.name, "difference": difference.mean,
                "difference_low": low, "difference_high": high, "p_adjusted": difference.adjusted_p_value,
                "p_value": difference.p_value, "verdict": task.get_verdict(entry),
                "worse_than_best_baseline": task.is_worse_than_baseline(entry),
            }  # fmt: skip
            for method, scores in collect_interval_scores(entry).items():
                row |= {f"{method}_{name}": value for name, (value, _) in scores.items()}
            yield row | task.settings.get(entry.name, {})
