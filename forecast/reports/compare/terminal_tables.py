"""The comparison on the terminal: one compact table per task."""

from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecast.reports.compare.factor_table import describe_factor, make_factor_table
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.findings import answer, describe_times
from forecast.reports.compare.paper_tables import count_seeds, make_cells, make_headings
from forecast.reports.compare.run_folders import ExcludedRun
from forecast.reports.compare.task import Task, get_verdict, is_worse_than_baseline
from forecast.system.formatting import plural

LEFT_ALIGNED = ("variant", "verdict")
LEFT_OUT = ("parameters", "peak memory (MiB)", "p (", "MSE", "MAE", "skill", "ms/window", "seeds")
"""Columns that a narrow terminal leaves out, in this order, by the start of their headings; not the tested score."""
LEFT_OUT_OF_FACTOR = ("skill (95 %)", "average rank", "win rate", "p", "skill", "time vs best")
"""Columns of the table of a factor that a narrow terminal leaves out, in this order."""


def print_tables(
    tasks: Sequence[Task], excluded: Sequence[ExcludedRun], factor: Factor | None = None
) -> None:
    """Print the tables and the excluded runs. The best variant is bold, baselines are dim."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200  # keep rows on one line in a file
    for task in tasks:
        if sentence := answer(task):
            console.print(Text(sentence), soft_wrap=True)
        order = [heading for heading in LEFT_OUT if heading != task.score_label]
        console.print(make_fitting_table(partial(make_table, task), order, console))
        for note in ("" if task.is_linear_only else task.linear_only_note, describe_times(task)):
            if note:
                console.print(Text(note), soft_wrap=True)
    if factor is not None:
        console.print(make_fitting_table(partial(make_factor_rows, factor), LEFT_OUT_OF_FACTOR, console))
        for sentence in describe_factor(factor):
            console.print(Text(sentence), soft_wrap=True)
    for run in excluded:
        console.print(Text(f"excluded: {run.folder.name}: {run.reason}"), soft_wrap=True)


def make_factor_rows(factor: Factor, left_out: Sequence[str] = ()) -> Table:
    """The table of a factor."""
    found = make_factor_table(factor)
    table = Table(title=Text(found.caption))
    shown = [i for i, column in enumerate(found.columns) if not column.heading.startswith(tuple(left_out))]
    for i in shown:
        table.add_column(found.columns[i].heading, justify="left" if i in found.text_columns else "right")
    for style, cells in found.rows:
        table.add_row(*(Text(cells[i].text) for i in shown), style="bold" if style else None)
    return table


def make_fitting_table(
    make: Callable[[Sequence[str]], Table], order: Sequence[str], console: Console
) -> Table:
    """The table without as many columns as it takes to fit the terminal, given the order in which they are left out."""
    table, unlimited = make(()), console.options.update_width(1000)
    for count in range(1, len(order) + 1):
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
        table = make(order[:count])
    return table


def make_table(task: Task, left_out: Sequence[str] = ()) -> Table:
    table = Table(title=Text(f"{task.title}: {plural(len(task.best.losses), 'test window')}"))
    headings = (*make_headings(task), "verdict")
    shown = [i for i, heading in enumerate(headings) if not heading.startswith(tuple(left_out))]
    for heading in (headings[i] for i in shown):
        table.add_column(heading, justify="left" if heading in LEFT_ALIGNED else "right")
    for entry, found in make_cells(task):
        verdict = get_verdict(task, entry)
        if is_worse_than_baseline(task, entry):
            verdict += f"; beaten by {task.best_baseline.name}"
        cells = [entry.name, count_seeds(entry), *(text for text, _ in found), verdict]
        style = "bold" if entry is task.best else "dim" if entry.is_baseline else None
        table.add_row(*(Text(cells[i]) for i in shown), style=style)
    return table
