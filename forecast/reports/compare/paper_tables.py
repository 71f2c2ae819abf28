"""Short tables of a comparison and of its factor in Markdown and LaTeX, for papers and READMEs."""

from collections.abc import Iterable, Iterator, Sequence

from forecast.evaluation.loss_difference import SIGNIFICANCE_LEVEL
from forecast.reports.compare.factor_table import describe_factor, make_factor_table
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.findings import answer
from forecast.reports.compare.markup import Markup, Table
from forecast.reports.compare.number_format import MISSING, format_number
from forecast.reports.compare.task import (
    COSTS,
    SCORE_COLUMNS,
    Column,
    Entry,
    Task,
    find_best_mean,
    format_test,
    get_values,
    is_best_of_column,
    is_not_significant,
    name_reference,
)
from forecast.runs.summary import mean_and_std

SHOWN_COSTS = COSTS[:3]
NOTE = (
    "Mean and standard deviation over seeds. Bold: best variant of the column. {mark}: no significant difference from "
    f"{{reference}} at the {100 * SIGNIFICANCE_LEVEL:.0f} {{percent}} level (Diebold-Mariano test on {{score}} "
    "for overlapping windows with the variance over seeds, p-values and intervals with Bonferroni correction; no test "
    "between variants of one seed). Italics: baselines."
)


def shown_scores(task: Task) -> list[Column]:
    """Return the columns of MSE, MAE and skill, and of the CRPS if it ranks the variants."""
    return [column for column in SCORE_COLUMNS if column.key in ("mse", "mae", "skill", task.best.score)]


def make_headings(task: Task) -> list[str]:
    """Return the headings of the columns of a task's table."""
    reference = name_reference(task)
    return [
        "variant", "seeds", *(c.heading for c in shown_scores(task)), f"{reference} (95 % interval)",
        f"p ({reference})", *(c.heading for c in SHOWN_COSTS),
    ]  # fmt: skip


def make_note(markup: Markup, task: Task) -> str:
    """Return the note below a task's table."""
    reference = "the best variant" if task.reference is task.best else markup.escape(task.reference.name)
    score = markup.escape(task.score_label)
    return NOTE.format(mark=markup.mark.strip(), percent=markup.escape("%"), reference=reference, score=score)


def make_cells(task: Task) -> Iterator[tuple[Entry, list[tuple[str, bool]]]]:
    """Yield each entry with its cells after name and seeds.

    A cell is its text and whether the entry is the best variant of the column.
    """
    scores = shown_scores(task)
    best = {column: find_best_mean(task, column) for column in (*scores, *SHOWN_COSTS)}
    for entry in task.entries:
        cells = []
        for column in (*scores, *SHOWN_COSTS):
            mean, deviation = mean_and_std(get_values(task, entry, column))
            text = format_number(mean, deviation) if column in scores else format_number(mean)
            cells.append((text, is_best_of_column(task, entry, mean, best[column])))
        change, interval, p_value = format_test(task, entry)
        difference = MISSING if change == MISSING else f"{change} {interval}"
        tests = [(difference, False), (p_value, False)]
        yield entry, [*cells[: len(scores)], *tests, *cells[len(scores) :]]


def count_seeds(entry: Entry) -> str:
    return MISSING if entry.is_baseline else str(len(entry.runs))


def format_tables(markup: Markup, tasks: Iterable[Task], factor: Factor | None = None) -> str:
    """Return a table for the factor, if there is one, and for each task."""
    parts = [markup.begin] if markup.begin else []
    if factor:
        parts.append(markup.write(make_paper_factor(markup, factor)))
    parts += [markup.write(make_paper_table(markup, task)) for task in tasks]
    return "\n\n".join(parts) + "\n"


def make_paper_table(markup: Markup, task: Task) -> Table:
    """Make the table of a task, with its answer and a note."""
    return Table(
        title=markup.escape(task.title),
        sentences=markup.escape(answer(task)),
        headings=[markup.escape(heading) for heading in make_headings(task)],
        rows=[make_row(markup, task, entry, cells) for entry, cells in make_cells(task)],
        note=make_note(markup, task),
    )


def make_row(markup: Markup, task: Task, entry: Entry, found: Sequence[tuple[str, bool]]) -> list[str]:
    """Make the row of an entry from the cells of `make_cells`: the name and the seeds come first."""
    name, seeds = markup.escape(entry.name), markup.escape_number(count_seeds(entry))
    cells = [(markup.bold if is_best else "{}").format(markup.escape_number(text)) for text, is_best in found]
    if entry.is_baseline:
        name = markup.italic.format(name)
    if is_not_significant(task, entry):
        cells[0] += markup.mark
    return [name, seeds, *cells]


def make_paper_factor(markup: Markup, factor: Factor) -> Table:
    """Make the table of a factor, with the sentences of the page."""
    table = make_factor_table(factor)
    rows = [[markup.escape(cell.text) for cell in cells] for _, cells in table.rows]
    rows[0][0] = markup.bold.format(rows[0][0])  # the best value
    return Table(
        title=markup.escape(table.caption),
        sentences=markup.escape(" ".join(describe_factor(factor))),
        headings=[markup.escape(column.heading) for column in table.columns],
        rows=rows,
        note="",
    )
