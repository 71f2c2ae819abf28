"""Compare trained runs on one page: `forecast compare --help`."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, check_choice
from forecast.system.files import atomic_file, check_output_files, output_file
from forecast.system.formatting import quote_for_shell, write_setting

if TYPE_CHECKING:
    from forecast.reports.compare.run_folders import FinishedRun

TABLE_SUFFIXES, FIGURE_SUFFIX = (".csv", ".md", ".tex"), ".pdf"


def compare(config: DictConfig) -> None:
    """Read the runs, group them into tasks and variants, and write the page and its tables: all files or none."""
    from forecast.evaluation.scores import SCALED_SCORES
    from forecast.reports.compare.run_folders import find_run_folders, read_runs
    from forecast.reports.compare.task import group_into_tasks

    output = output_file(config.output, ".html")
    check_choice("score", config.score, SCALED_SCORES)
    paths = [output, *(output.with_suffix(suffix) for suffix in (*TABLE_SUFFIXES, FIGURE_SUFFIX))]
    check_output_files(*paths, overwrite=config.overwrite)

    places = [config.runs] if isinstance(config.runs, str) else list(map(str, config.runs))
    if not places:
        raise ConfigError("no runs given; name their folders, for example: forecast compare runs")
    runs, excluded = read_runs(find_run_folders(places))
    if not runs:
        reasons = "; ".join(f"{run.folder.name}: {run.reason}" for run in excluded[:3]) or "no folders"
        raise ConfigError(f"no finished run in {', '.join(places)} ({reasons})")
    check_score(runs, config.score)
    reference = None if config.reference == "best" else str(config.reference)
    tasks = group_into_tasks(runs, config.score, reference)

    # these modules import Jinja, Matplotlib and Plotly
    from forecast.reports.compare import tables
    from forecast.reports.compare.page import render_page, write_figures
    from forecast.reports.tables import write_latex, write_markdown

    overview = tables.make_overview_table(tasks)
    short = [*[overview] * (len(tasks) > 1), *map(tables.make_short_table, tasks)]
    contents = [
        render_page(str(config.title), tasks, excluded),
        tables.format_csv(tables.make_rows(tasks)),
        "\n\n".join(map(write_markdown, [*short, tables.make_card_table(tasks)])) + "\n",
        "\n\n".join([r"% Needs \usepackage{booktabs}", *map(write_latex, short)]) + "\n",
    ]
    with ExitStack() as files:
        *texts, figures = (files.enter_context(atomic_file(path)) for path in paths)
        for path, content in zip(texts, contents, strict=True):
            path.write_text(content, encoding="utf-8")
        write_figures(tasks, figures)
    tables.print_tables(tasks, excluded)
    names = [path.name for path in paths[1:]]
    print(f"saved {output}; tables in {', '.join(names[:-1])}; figures in {names[-1]}")


def check_score(runs: "Sequence[FinishedRun]", score: str) -> None:
    """Raise ConfigError if a run does not have this score of every test window."""
    column = f"model_{score}"
    for run in runs:
        if column not in run.windows or bool(run.windows[column].isna().to_numpy().any()):
            raise ConfigError(
                f"score={score}: {run.folder.name} has no {score.upper()} of its test windows: give score=mse, or "
                "train it again with more validation windows"
            )


def show_sweep(folder: Path) -> None:
    """Print the comparison of a sweep's finished runs, save it as `summary.csv`, and print the next commands.

    Runs with trained quantiles are compared by CRPS, others by MSE.
    If a baseline is better than every variant, the command forecasts with the baseline.
    """
    from forecast.reports.compare.run_folders import find_run_folders, read_runs
    from forecast.reports.compare.tables import format_csv, make_rows, print_tables
    from forecast.reports.compare.task import group_into_tasks

    runs, _ = read_runs(find_run_folders([str(folder)]))
    has_quantiles = bool(runs) and all("validation_quantile_loss" in run.metrics for run in runs)
    tasks = group_into_tasks(runs, score="crps" if has_quantiles else "mse")
    print_tables(tasks, [])
    if has_quantiles:
        why = "as the runs have trained quantiles"
        print(f"ranked and tested by CRPS, {why}: skill, too, is that of the CRPS")
    options = " score=crps" * has_quantiles
    if tasks:
        with atomic_file(folder / "summary.csv") as temporary:
            temporary.write_text(format_csv(make_rows(tasks)), encoding="utf-8")
        print(f"saved {folder / 'summary.csv'}")
        place = quote_for_shell(str(folder))
        print(f"page of this comparison:  forecast compare {place}{options}")
    if len(tasks) != 1:
        return
    command, baseline = "forecast predict", tasks[0].best_baseline
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


if __name__ == "__main__":
    main_without_run_folder("compare", positional="runs")
