"""Tables of cells, and numbers as text: one model for the terminal, Markdown, LaTeX and the pages. Imports no torch."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import rich.table
from rich.console import Console
from rich.text import Text

from forecast.evaluation.significance import LossDifference
from forecast.system.formatting import decimals, format_column

MISSING = "–"  # a value that is unknown or does not exist
LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": "--", "·": r"$\cdot$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def format_number(mean: float, deviation: float = math.nan) -> str:
    """Return a mean with decimals according to its size, and its standard deviation with as many."""
    if math.isnan(mean):
        return MISSING
    size = abs(mean)
    if mean == int(mean) and not deviation > 0:
        return f"{mean:,.0f}".replace("-", "−")
    form = ".2e" if 0 < size < 0.001 else f",.{decimals(size)}f"
    text = f"{mean:{form}}".replace("-", "−")
    return text if math.isnan(deviation) else f"{text} ± {deviation:{form}}"


def format_percent(change: float) -> str:
    """Return a relative change with its sign, such as `+1.5%`."""
    if math.isnan(change):
        return MISSING
    return f"{round(100 * change, 1) + 0.0:+,.1f}%".replace("-", "−")  # + 0.0: no −0.0


def format_interval(difference: LossDifference, *, of_decrease: bool = False) -> str:
    """Return the 95% interval of a relative difference in percent, such as `[−0.2, +3.1]`; or why there is none.

    Every relative interval that the program prints is this text. `of_decrease` shows how much less the loss is.
    """
    ends = difference.relative_interval()
    if not math.isnan(ends[0]):
        ends = (-ends[1], -ends[0]) if of_decrease else ends
        return f"[{', '.join(format_percent(end).removesuffix('%') for end in ends)}]"
    if math.isnan(difference.independent) or not difference.base > 0:
        return MISSING
    return f"too few independent windows (about {max(1, round(difference.independent)):,})"


def format_p_value(p: float) -> str:
    return MISSING if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


class Column(NamedTuple):
    """A column, with its explanation, and which values are better."""

    key: str
    heading: str
    meaning: str = ""
    better: Literal["lower", "higher", "neither"] = "neither"


class Cell(NamedTuple):
    text: str
    value: float | str | None = None  # what it is sorted by; None: sorted last. Text is aligned to the left.
    style: str = ""  # CSS class; `leads` is the best of its column

    @classmethod
    def from_number(cls, mean: float, deviation: float = math.nan, style: str = "") -> "Cell":
        return cls(format_number(mean, deviation), None if math.isnan(mean) else mean, style)

    @classmethod
    def from_text(cls, text: str, style: str = "") -> "Cell":
        return cls(text, text, style)


@dataclass(frozen=True)
class Table:
    """A table. Each row is its CSS class (`best`, `baseline` or none) and its cells; the first one names the row."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    sentences: Sequence[str] = ()  # findings on the table
    note: str = ""  # explanation of the table
    sorted_by: str | None = None  # key of a column

    @property
    def text_columns(self) -> set[int]:
        return {i for _, cells in self.rows for i, cell in enumerate(cells) if isinstance(cell.value, str)}

    def only(self, keys: Collection[str]) -> "Table":
        kept = [i for i, column in enumerate(self.columns) if column.key in keys]
        rows = [(style, [cells[i] for i in kept]) for style, cells in self.rows]
        return replace(self, columns=[self.columns[i] for i in kept], rows=rows)

    def without(self, keys: Collection[str]) -> "Table":
        return self.only({column.key for column in self.columns} - {*keys})


def tabulate(
    title: str,
    name: str,
    headings: Mapping[str, str],
    scores: Mapping[str, Mapping[str, float]],
    more: Mapping[str, Sequence[str]] | None = None,
    best: str = "",
) -> Table:
    """Return a table with a row for each forecaster, whose scores have the decimals that the smallest one needs.

    `more`: texts of further columns, one for each row, by heading.
    """
    columns = {heading: format_column(row[key] for row in scores.values()) for key, heading in headings.items()}
    columns |= {heading: list(texts) for heading, texts in (more or {}).items()}
    rows = [
        ("best" * (each == best), [Cell.from_text(each), *(Cell(column[i]) for column in columns.values())])
        for i, each in enumerate(scores)
    ]
    return Table(title, [Column("name", name), *(Column(heading, heading) for heading in columns)], rows)


def print_table(table: Table, console: Console, least: Sequence[str] = ()) -> None:
    """Print a table. The best row is bold, baselines are dim.

    A narrow terminal leaves out as many of the columns `least` as it must, in this order.
    """
    drawn, unlimited = draw(table), console.options.update_width(1000)
    left_out = [key for key in least if key != table.sorted_by]
    for count in range(1, len(left_out) + 1):
        if console.measure(drawn, options=unlimited).maximum <= console.width:
            break
        drawn = draw(table.without(left_out[:count]))
    console.print(drawn)


def draw(table: Table) -> rich.table.Table:
    drawn = rich.table.Table(title=Text(table.title))
    for number, column in enumerate(table.columns):
        drawn.add_column(Text(column.heading), justify="left" if number in table.text_columns else "right")
    for style, cells in table.rows:
        drawn.add_row(*(Text(cell.text) for cell in cells), style={"best": "bold", "baseline": "dim"}.get(style))
    return drawn


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print each line in full, as it is."""
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|$~&])", r"\\\1", " ".join(text.split()))


def escape_latex(text: str) -> str:
    return "".join(LATEX_ESCAPES.get(character, character) for character in " ".join(text.split()))


def write_markdown(table: Table) -> str:
    """Return a section with the table."""
    parts = [f"## {escape_markdown(table.title)}", escape_markdown(" ".join(table.sentences))]
    rows = [f"| {' | '.join(emphasize(row, escape_markdown, '**{}**', '*{}*'))} |" for row in table.rows]
    headings = [escape_markdown(column.heading) for column in table.columns]
    head = [f"| {' | '.join(headings)} |", "| --- " + "| ---: " * (len(headings) - 1) + "|"]
    parts += ["\n".join([*head, *rows]), escape_markdown(table.note)]
    return "\n\n".join(filter(None, parts))


def write_latex(table: Table) -> str:
    """Return a table with rules of the package booktabs, and its sentences and note as comments.

    Its title is the caption, and the letters and digits of the title are the label.
    """
    label = "-".join(re.findall("[a-z0-9]+", table.title.lower()))
    rows = [" & ".join(emphasize(row, escape_latex, r"\textbf{{{}}}", r"\textit{{{}}}")) for row in table.rows]
    lines = [
        *(f"% {escape_latex(line)}" for line in (*table.sentences, table.note) if line),
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.title)}.}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(escape_latex(column.heading) for column in table.columns)} \\\\",
        r"    \midrule",
        *(rf"    {row} \\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def emphasize(row: tuple[str, Sequence[Cell]], escape: Callable[[str], str], bold: str, italic: str) -> list[str]:
    """Return the escaped texts of a row: the best of a column in `bold`, the name of a baseline in `italic`."""
    style, cells = row
    templates = [bold if cell.style == "leads" else "{}" for cell in cells]
    templates[0] = {"best": bold, "baseline": italic}.get(style, "{}")
    return [template.format(escape(cell.text)) for template, cell in zip(templates, cells, strict=True)]
