"""Markdown and LaTeX: escaping, bold and italic text, and tables with a title and a note."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": "--", "·": r"$\cdot$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A table whose texts are escaped; `sentences` and `note` may be empty."""

    title: str
    sentences: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str


@dataclass(frozen=True)
class Markup:
    """A language of markup.

    Attributes:
        begin: lines before the first table; empty: none.
        escape: returns text that is rendered literally, on one line.
        escape_number: the same for the text of a number, such as `< 0.001`.
        bold, italic: templates with a place for the text.
        mark: mark of a result in a cell, and in the note.
        write: returns a table.
    """

    begin: str
    escape: Callable[[str], str]
    escape_number: Callable[[str], str]
    bold: str
    italic: str
    mark: str
    write: Callable[[Table], str]


def escape_markdown(text: str) -> str:
    """Return text that Markdown renders literally, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~&])", r"\\\1", " ".join(text.split()))


def escape_latex(text: str) -> str:
    """Return text that LaTeX renders literally, on one line."""
    return "".join(LATEX_ESCAPES.get(character, character) for character in " ".join(text.split()))


def write_markdown(table: Table) -> str:
    """Return a Markdown section with the table."""
    lines = [f"## {table.title}", "", *([table.sentences, ""] if table.sentences else [])]
    lines += [f"| {' | '.join(table.headings)} |", "| --- " + "| ---: " * (len(table.headings) - 1) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    return "\n".join([*lines, *(["", table.note] if table.note else [])])


def write_latex(table: Table) -> str:
    """Return a LaTeX table with rules of the package booktabs, whose title, sentences and note are the caption."""
    caption = " ".join(filter(None, [f"{table.title}.", table.sentences, table.note]))
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(table.headings) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(table.headings)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(row)} \\\\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


MARKDOWN = Markup(
    begin="",
    escape=escape_markdown,
    escape_number=lambda text: text.replace("<", "&lt;"),
    bold="**{}**",
    italic="*{}*",
    mark=" †",
    write=write_markdown,
)
LATEX = Markup(
    begin=r"% Needs \usepackage{booktabs}",
    escape=escape_latex,
    escape_number=escape_latex,
    bold=r"\textbf{{{}}}",
    italic=r"\textit{{{}}}",
    mark=r"$^\dagger$",
    write=write_latex,
)
