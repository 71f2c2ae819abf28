"""The tables of a comparison on the terminal, in Markdown and LaTeX for papers and READMEs, and as CSV."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import rich.table
from rich.console import Console
from rich.text import Text

from forecast.reports.compare.factors import Factor
from forecast.reports.compare.findings import describe_times
from forecast.reports.compare.run_folders import ExcludedRun
from forecast.reports.compare.tables import (
    MARK,
    Cell,
    Table,
    collect_interval_scores,
    make_factor_table,
    make_short_table,
)
from forecast.reports.compare.task import (
    COSTS,
    SCORE_COLUMNS,
    Task,
    get_values,
    get_verdict,
    is_worse_than_baseline,
)
from forecast.runs.summary import mean_and_std
from forecast.system.formatting import plural

Texts = Sequence[str]
LEFT_OUT = (
    "n_parameters", "peak_memory_mb", "spread", "rank", "wins", "p", "mse", "mae", "skill", "ms_per_window", "cost",
    "seeds",
)  # fmt: skip
"""Columns that a narrow terminal leaves out, in this order, but for the tested score."""
LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": "--", "·": r"$\cdot$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def print_tables(
    tasks: Sequence[Task], excluded: Sequence[ExcludedRun], factor: Factor | None = None
) -> None:
    """Print the tables and the excluded runs. The best row is bold, baselines are dim."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200  # keep rows on one line in a file
    for task in tasks:
        table = make_short_table(task)
        title = f"{task.title}: {plural(len(task.best.losses), 'test window')}"
        notes = "" if task.is_linear_only else task.linear_only_note, describe_times(task)
        print_lines(console, table.sentences)
        console.print(fit_terminal(replace(table, title=title), console))
        print_lines(console, [note for note in notes if note])
    if factor is not None:
        table = make_factor_table(factor)
        console.print(fit_terminal(table, console))
        print_lines(console, table.sentences)
    print_lines(console, [f"excluded: {run.folder.name}: {run.reason}" for run in excluded])


def print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def fit_terminal(table: Table, console: Console) -> rich.table.Table:
    """Return the table without as many of the columns `LEFT_OUT` as it takes to fit the terminal."""
    order = [key for key in LEFT_OUT if key != table.sorted_by]
    drawn, unlimited = draw(table), console.options.update_width(1000)
    for count in range(1, len(order) + 1):
        if console.measure(drawn, options=unlimited).maximum <= console.width:
            break
        drawn = draw(table.without(order[:count]))
    return drawn


def draw(table: Table) -> rich.table.Table:
    """Return the table for the terminal."""
    drawn = rich.table.Table(title=Text(table.title))
    for number, column in enumerate(table.columns):
        drawn.add_column(column.heading, justify="left" if number in table.text_columns else "right")
    for style, cells in table.rows:
        drawn.add_row(
            *(Text(cell.text) for cell in cells), style={"best": "bold", "baseline": "dim"}.get(style)
        )
    return drawn


def escape_markdown(text: str) -> str:
    """Return text that Markdown renders literally, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~&])", r"\\\1", " ".join(text.split()))


def escape_latex(text: str) -> str:
    """Return text that LaTeX renders literally, on one line."""
    return "".join(LATEX_ESCAPES.get(character, character) for character in " ".join(text.split()))


def lay_out_markdown(
    title: str, sentences: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> str:
    """Return a Markdown section with the table."""
    lines = [f"## {title}", "", *([sentences, ""] if sentences else [])]
    lines += [f"| {' | '.join(headings)} |", "| --- " + "| ---: " * (len(headings) - 1) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, *(["", note] if note else [])])


def lay_out_latex(title: str, sentences: str, headings: Texts, rows: Sequence[Texts], note: str) -> str:
    """Return a LaTeX table with rules of the package booktabs, whose title, sentences and note are the caption."""
    caption = " ".join(filter(None, [f"{title}.", sentences, note]))
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(headings)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(row)} \\\\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Markup:
    """A language of markup.

    Attributes:
        begin: lines before the first table.
        escape: returns text that is rendered literally, on one line.
        escape_number: the same for the text of a number, such as `< 0.001`.
        bold, italic: templates with a place for the text.
        mark: mark of a result in a cell, and in the note.
        lay_out: returns a table from its escaped title, sentences, headings, rows and note.
    """

    begin: Sequence[str]
    escape: Callable[[str], str]
    escape_number: Callable[[str], str]
    bold: str
    italic: str
    mark: str
    lay_out: Callable[[str, str, Texts, Sequence[Texts], str], str]

    def write(self, table: Table) -> str:
        """Return a table."""
        return self.lay_out(
            self.escape(table.title),
            self.escape(" ".join(table.sentences)),
            [self.escape(column.heading) for column in table.columns],
            [self.make_row(table, style, cells) for style, cells in table.rows],
            self.escape(table.note).replace(MARK, self.mark.strip()),
        )

    def make_row(self, table: Table, style: str, cells: Sequence[Cell]) -> list[str]:
        """Return the texts of a row. See `Table.note` for what is bold."""
        name, numbers = self.escape(cells[0].text), cells[1:]
        if style == "baseline":
            name = self.italic.format(name)
        if not table.note:
            name = self.bold.format(name) if style == "best" else name
            return [name, *(self.escape(cell.text) for cell in numbers)]
        texts = [
            (self.bold if cell.style == "leads" else "{}").format(self.escape_number(cell.text))
            + (self.mark if cell.is_marked else "")
            for cell in numbers
        ]
        return [name, *texts]


MARKDOWN = Markup(
    begin=(),
    escape=escape_markdown,
    escape_number=lambda text: text.replace("<", "&lt;"),
    bold="**{}**",
    italic="*{}*",
    mark=f" {MARK}",
    lay_out=lay_out_markdown,
)
LATEX = Markup(
    begin=(r"% Needs \usepackage{booktabs}",),
    escape=escape_latex,
    escape_number=escape_latex,
    bold=r"\textbf{{{}}}",
    italic=r"\textit{{{}}}",
    mark=r"$^\dagger$",
    lay_out=lay_out_latex,
)


def format_tables(markup: Markup, tasks: Iterable[Task], factor: Factor | None = None) -> str:
    """Return a table for the factor, if there is one, and for each task."""
    tables = [make_factor_table(factor)] if factor else []
    tables += [make_short_table(task).without(["verdict"]) for task in tasks]
    return "\n\n".join([*markup.begin, *map(markup.write, tables)]) + "\n"


def format_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows of `make_rows` or `make_factor_rows` as CSV."""
    return pd.DataFrame(rows).map(escape_formula).to_csv(index=False)


def escape_formula(value: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula, because names may come from other people's files."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


def make_rows(tasks: Iterable[Task]) -> Iterator[dict[str, Any]]:
    """Yield the scores, costs, test result and settings of each variant and baseline of the tasks."""
    for task in tasks:
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
            members = [task.settings.get(member.name, {}) for member in entry.equal or [entry]]
            yield row | {key: " = ".join(dict.fromkeys(one[key] for one in members)) for key in members[0]}


def make_factor_rows(factor: Factor) -> Iterator[dict[str, Any]]:
    """Yield each value of the factor: its error relative to the best value's, skill, cost and ranks."""
    for level in factor.levels:
        difference = factor.differences.get(level)
        low, high = difference.relative_interval() if difference else (math.nan, math.nan)
        skill, skill_low, skill_high = factor.skill(level)
        yield {
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
