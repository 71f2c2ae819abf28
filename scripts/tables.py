"""Tables of the pages under docs/benchmarks."""

from collections.abc import Iterable


def markdown_table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    """One line a row, the header and its rule first."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]
