"""Tables in Markdown from rows of results. Standard library only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]


def markdown_table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Return the lines of a table: the header, the separator, and one line per row."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def list_rows(rows: Iterable[Row], columns: Mapping[str, str | Callable[[Row], str]]) -> list[str]:
    """Return a table with one line per row.

    Args:
        rows: the results.
        columns: for each heading, the key of a value, or a function from the row to a text.
    """
    lines = [[str(row[text]) if isinstance(text, str) else text(row) for text in columns.values()] for row in rows]
    return markdown_table(list(columns), lines)


def pivot(rows: Sequence[Row], down: str, across: str, text: Callable[[Row], str], missing: str = "") -> list[str]:
    """Return a table with one line for each value of the key `down`, and one column for each value of `across`."""
    shown = {(row[down], row[across]): text(row) for row in rows}
    columns = list(dict.fromkeys(row[across] for row in rows))
    lines = [
        [str(name), *(shown.get((name, column), missing) for column in columns)]
        for name in dict.fromkeys(row[down] for row in rows)
    ]
    return markdown_table([down, *map(str, columns)], lines)


def milliseconds(row: Row) -> str:
    """Return the median time of a row in milliseconds."""
    return f"{1000 * row['median']:,.1f}"
