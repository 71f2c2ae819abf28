"""Tables of the pages under docs/benchmarks."""

from collections.abc import Iterable


def markdown_table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Return the lines of a table: the header, the separator, and one line per row."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]
