"""Short tables of a comparison and of its factor in Markdown and LaTeX, for papers and READMEs."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from forecast.reports.compare.answer import answer
from forecast.reports.compare.factor_table import describe_factor, make_factor_table
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.number_format import MISSING, format_number
from forecast.reports.compare.scores import (
    COSTS,
    SCORES,
    SIGNIFICANCE_LEVEL,
    find_best_mean,
    format_test,
    get_values,
    is_best_of_column,
    is_not_significant,
    name_reference,
)
from forecast.reports.compare.task import Entry, Task
from forecast.runs.summary import mean_and_std

SHOWN_SCORES, SHOWN_COSTS = SCORES[:3], COSTS[:3]
NOTE = (
    "Mean and standard deviation over seeds. Bold: best variant of the column. {mark}: no significant difference from "
    f"{{reference}} at the {100 * SIGNIFICANCE_LEVEL:.0f} {{percent}} level (Diebold-Mariano test on {{score}} "
    "for overlapping windows with the variance over seeds, p-values and intervals with Bonferroni correction; no test "
    "between variants of one seed). Italics: baselines."
)


def make_headings(task: Task) -> list[str]:
    """Return the headings of the columns of a task's table."""
    reference = name_reference(task)
    return [
        "variant", "seeds", *(c.heading for c in SHOWN_SCORES), f"{reference} (95 % interval)", f"p ({reference})",
        *(c.heading for c in SHOWN_COSTS),
    ]  # fmt: skip


def make_note(task: Task, mark: str, percent: str, escape: Callable[[str], str]) -> str:
    """Return the note below a task's table, in Markdown or LaTeX."""
    reference = "the best variant" if task.reference is task.best else escape(task.reference.name)
    return NOTE.format(mark=mark, percent=percent, reference=reference, score=task.score_label)


def make_cells(task: Task) -> Iterator[tuple[Entry, list[tuple[str, bool]]]]:
    """Yield each entry with its cells after name and seeds.

    A cell is its text and whether the entry is the best variant of the column.
    """
    best = {column: find_best_mean(task, column) for column in (*SHOWN_SCORES, *SHOWN_COSTS)}
    for entry in task.entries:
        cells = []
        for column in (*SHOWN_SCORES, *SHOWN_COSTS):
            mean, deviation = mean_and_std(get_values(task, entry, column))
            text = format_number(mean, deviation) if column in SHOWN_SCORES else format_number(mean)
            cells.append((text, is_best_of_column(task, entry, mean, best[column])))
        change, interval, p_value = format_test(task, entry)
        difference = MISSING if change == MISSING else f"{change} {interval}"
        tests = [(difference, False), (p_value, False)]
        yield entry, [*cells[: len(SHOWN_SCORES)], *tests, *cells[len(SHOWN_SCORES) :]]


def count_seeds(entry: Entry) -> str:
    return MISSING if entry.is_baseline else str(len(entry.runs))


def format_markdown(tasks: Iterable[Task], factor: Factor | None = None) -> str:
    """Return a Markdown section with a table for the factor, if there is one, and for each task."""
    parts = [format_markdown_factor(factor)] if factor else []
    for task in tasks:
        rows = []
        for entry, found in make_cells(task):
            name = escape_markdown(entry.name)
            cells = [f"**{text}**" if is_best else text for text, is_best in found]
            if entry.is_baseline:
                name = f"*{name}*"
            if is_not_significant(task, entry):
                cells[0] += " †"
            rows.append([name, count_seeds(entry), *cells])
        note = make_note(task, "†", "%", escape_markdown)
        first = [escape_markdown(sentence), ""] if (sentence := answer(task)) else []
        table = make_markdown_table(make_headings(task), rows)
        parts.append("\n".join([f"## {escape_markdown(task.title)}", "", *first, *table, "", note]))
    return "\n\n".join(parts) + "\n"


def format_markdown_factor(factor: Factor) -> str:
    """Return a Markdown section on a factor: the sentences of the page and its table."""
    table = make_factor_table(factor)
    rows = [[escape_markdown(cell.text) for cell in cells] for _, cells in table.rows]
    rows[0][0] = f"**{rows[0][0]}**"  # the best value
    sentences = escape_markdown(" ".join(describe_factor(factor)))
    lines = make_markdown_table([column.heading for column in table.columns], rows)
    return "\n".join([f"## {escape_markdown(table.caption)}", "", sentences, "", *lines])


def make_markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table from headings in plain text and rows in Markdown."""
    lines = [
        f"| {' | '.join(map(escape_markdown, headings))} |",
        "| --- " + "| ---: " * (len(headings) - 1) + "|",
    ]
    return lines + [f"| {' | '.join(row)} |".replace("| < 0", "| &lt; 0") for row in rows]


def format_latex(tasks: Iterable[Task], factor: Factor | None = None) -> str:
    """Return a LaTeX table for the factor, if there is one, and for each task, with rules of the package booktabs."""
    parts = [r"% Needs \usepackage{booktabs}"]
    if factor:
        parts.append(format_latex_factor(factor))
    for task in tasks:
        note = make_note(task, r"$^\dagger$", r"\%", escape_latex)
        caption = [f"{escape_latex(task.title)}.", escape_latex(answer(task)), note]
        rows = (format_latex_row(task, entry, cells) for entry, cells in make_cells(task))
        parts.append(make_latex_table(" ".join(filter(None, caption)), make_headings(task), rows))
    return "\n\n".join(parts) + "\n"


def format_latex_factor(factor: Factor) -> str:
    """Return a LaTeX table on a factor, with the sentences of the page as its caption."""
    table = make_factor_table(factor)
    rows = [[escape_latex(cell.text) for cell in cells] for _, cells in table.rows]
    rows[0][0] = rf"\textbf{{{rows[0][0]}}}"  # the best value
    caption = escape_latex(" ".join(describe_factor(factor)))
    return make_latex_table(caption, [column.heading for column in table.columns], rows)


def make_latex_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table from headings in plain text, and a caption and rows in LaTeX."""
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(escape_latex, headings))} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(row)} \\\\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def format_latex_row(task: Task, entry: Entry, found: list[tuple[str, bool]]) -> list[str]:
    name = escape_latex(entry.name)
    cells = [
        rf"\textbf{{{escape_latex(text)}}}" if is_best else escape_latex(text) for text, is_best in found
    ]
    if entry.is_baseline:
        name = rf"\textit{{{name}}}"
    if is_not_significant(task, entry):
        cells[0] += r"$^\dagger$"
    return [name, escape_latex(count_seeds(entry)), *cells]


def escape_markdown(text: str) -> str:
    """Return text that Markdown renders literally, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~&])", r"\\\1", " ".join(text.split()))


LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": "--", "·": r"$\cdot$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Return text that LaTeX renders literally, on one line."""
    return "".join(LATEX_ESCAPES.get(character, character) for character in " ".join(text.split()))
