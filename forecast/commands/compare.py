"""Body of `python -m forecast.compare`: compare trained runs in one page."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from forecast.evaluation.scores import SCALED_SCORES
from forecast.reports.compare.factors import Factor, find_factor
from forecast.reports.compare.grouping import group_into_tasks
from forecast.reports.compare.run_folders import (
    TIMES_FILE,
    ExcludedRun,
    FinishedRun,
    find_run_folders,
    list_places,
    read_runs,
)
from forecast.reports.compare.tables import (
    format_csv,
    make_factor_rows,
    make_factor_table,
    make_rows,
    make_short_table,
    print_tables,
)
from forecast.reports.compare.task import BEST, Task
from forecast.reports.tables import write_latex, write_markdown
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file, check_output_files, write_json
from forecast.system.formatting import quote_for_shell, write_setting
from forecast.system.progress import track

ATTENTION = "attention"  # the setting that `by` names unless told otherwise
TABLE_SUFFIXES = (".csv", ".md", ".tex")


def compare(config: DictConfig) -> None:
    """Read the runs, group them into tasks and variants, and write the page and its tables.

    Either all files are written or none.

    Raises:
        ConfigError: no run folder is given, one does not exist, no run is finished, an output file exists, or there is
            no such reference.
    """
    output = Path(config.output)
    if output.suffix != ".html":
        raise ConfigError(f"output={output}: the page is an HTML file; give a name that ends in .html")
    if config.score not in SCALED_SCORES:
        raise ConfigError(f"score={config.score} must be one of {', '.join(SCALED_SCORES)}")
    paths = [output, *(output.with_suffix(suffix) for suffix in TABLE_SUFFIXES)]
    factor_path = output.with_name(f"{output.stem}-by-{str(config.by).replace('/', '-')}.csv")
    check_output_files(*paths, *([factor_path] if config.by else []), overwrite=config.overwrite)

    places = list_places(config.runs)
    if not places:
        raise ConfigError("no runs given; name their folders, for example: python -m forecast.compare runs")
    runs, excluded = read_places(places)
    if not runs:
        reasons = "; ".join(f"{run.folder.name}: {run.reason}" for run in excluded[:3]) or "no folders"
        raise ConfigError(f"no finished run in {', '.join(places)} ({reasons})")
    check_score(runs, config.score)
    reference = None if config.reference == BEST else str(config.reference)
    tasks = group_into_tasks(runs, config.score, reference)
    factor = choose_factor(tasks, config)
    if config.retime:  # after an unknown setting was refused
        tasks = group_into_tasks(retime_runs(runs, tasks), config.score, reference)
        factor = choose_factor(tasks, config)

    from forecast.reports.compare.page import render_page  # imports Jinja and Plotly

    tables = [*([make_factor_table(factor)] if factor else []), *map(make_short_table, tasks)]
    contents = [
        render_page(str(config.title), tasks, excluded, factor),
        format_csv(make_rows(tasks)),
        "\n\n".join(map(write_markdown, tables)) + "\n",
        "\n\n".join([r"% Needs \usepackage{booktabs}", *map(write_latex, tables)]) + "\n",
    ]
    if factor:
        paths.append(factor_path)
        contents.append(format_csv(make_factor_rows(factor)))
    with ExitStack() as files:
        for path, content in zip(paths, contents, strict=True):
            files.enter_context(atomic_file(path)).write_text(content, encoding="utf-8")
    print_tables(tasks, excluded, factor)
    print(f"saved {output}; tables in {', '.join(path.name for path in paths[1:])}")


def choose_factor(tasks: Sequence[Task], config: DictConfig) -> Factor | None:
    """Return the setting that `by` names; None without `by`, and for the attention type where it does not vary."""
    return find_factor(tasks, str(config.by), required=config.by != ATTENTION) if config.by else None


def retime_runs(runs: Sequence[FinishedRun], tasks: Sequence[Task]) -> list[FinishedRun]:
    """Measure the inference times of the runs again, and save them into the folders that can be written."""
    from forecast.tools.retime import retime  # imports PyTorch

    times = retime(tasks)
    for folder in times:
        if os.access(folder, os.W_OK):
            write_json(folder / TIMES_FILE, times[folder])
    return [replace(run, new_times=times[run.folder]) for run in runs]


def check_score(runs: Sequence[FinishedRun], score: str) -> None:
    """Raise ConfigError if a run does not have this score of every test window."""
    column = f"model_{score}"
    for run in runs:
        if column not in run.windows or bool(run.windows[column].isna().to_numpy().any()):
            raise ConfigError(
                f"score={score}: {run.folder.name} has no {score.upper()} of its test windows: give score=mse, or "
                "train it again with more validation windows"
            )


def read_places(places: Sequence[str]) -> tuple[list[FinishedRun], list[ExcludedRun]]:
    """Read the runs in these folders, and show the progress."""
    return read_runs(find_run_folders(places), lambda folders: track(folders, "reading runs"))


def show_sweep(folder: Path) -> None:
    """Print the comparison of a sweep's finished runs, and the commands that a user may want next.

    Runs with trained quantiles are compared by CRPS, others by MSE.
    If a baseline is better than every variant, the command forecasts with the baseline.
    """
    runs, _ = read_places([str(folder)])
    has_quantiles = bool(runs) and all("validation_quantile_loss" in run.metrics for run in runs)
    tasks = group_into_tasks(runs, score="crps" if has_quantiles else "mse")
    print_tables(tasks, [], find_factor(tasks, ATTENTION))
    if has_quantiles:
        print(
            "ranked and tested by CRPS, as the runs have trained quantiles: skill, too, is that of the CRPS"
        )
    again = any(task.count_disturbed_runs("ms_per_window") for task in tasks)
    options = " score=crps" * has_quantiles + " retime=true" * again
    if tasks:
        place = quote_for_shell(str(folder))
        print(f"page of this comparison:  python -m forecast.compare {place}{options}")
    if len(tasks) != 1:
        return
    command, baseline = "python -m forecast.predict", tasks[0].best_baseline
    if tasks[0].is_baseline_better:
        checkpoint = write_setting("checkpoint", str(baseline.runs[0].folder))
        print(f"forecast with {baseline.name}:  {command} {checkpoint} baseline={baseline.column}")
    else:
        score = "validation_quantile_loss" if has_quantiles else "validation_mse"
        best = min(runs, key=lambda run: run.metrics[score])
        print(
            "forecast with the run of the lowest validation error, because a choice on test windows flatters the model:"
            f"  {command} {write_setting('checkpoint', str(best.folder))}"
        )
