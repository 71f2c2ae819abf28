"""What the command line of scripts/reproduce takes. Standard library alone."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from peers.options import folder, positive
from results.cells import KINDS, ROOT, TABLES, Cell


class Parser(argparse.ArgumentParser):
    """Says a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; `cells` are those chosen."""
    parser = Parser(
        prog="scripts/reproduce",
        description="Run what a table of docs/results.md still lacks, cell by cell, and write the page. A cell is one "
        "training run; finished ones are kept in docs/results/TABLE.json, so a stopped table goes on where it was.",
        epilog=f"tables: {', '.join(TABLES)}",
    )
    parser.add_argument("table", nargs="?", metavar="TABLE", help="one of those below")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="cells at a time (default: 1)")
    parser.add_argument(
        "--root", type=folder, default=ROOT / "data", metavar="FOLDER",
        help="where the data sets' files lie, or are downloaded to (default: data)",
    )  # fmt: skip
    parser.add_argument("--kinds", metavar="KIND,KIND", help="only these attention kinds")
    parser.add_argument("--seeds", metavar="N,N", help="only these seeds")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cells with this in their name")
    parser.add_argument("--list", action="store_true", help="name the cells, and say which are finished")
    parser.add_argument("--page", action="store_true", help="only write docs/results.md from what is there")
    options = parser.parse_args(arguments)
    if options.page:
        if options.table or options.list:
            parser.error("--page goes alone: the page is written from every table")
        return options
    if options.table not in TABLES:
        said = "no table was named" if options.table is None else f"there is no table {options.table}"
        parser.error(f"{said}: choose one of {', '.join(TABLES)}")
    try:
        options.cells = chosen(TABLES[options.table], options.kinds, options.seeds, options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def chosen(cells: Sequence[Cell], kinds: str | None, seeds: str | None, text: str) -> list[Cell]:
    """Those of these kinds and seeds with `text` in their names. Raises ValueError for what none of them has."""
    table = cells[0].table
    found = list(cells)
    if kinds is not None:
        there = [kind for kind in KINDS if any(cell.kind == kind for cell in cells)]
        names = among(kinds, there, f"--kinds: {table} has")
        found = [cell for cell in found if cell.kind in names]
    if seeds is not None:
        numbers = among(seeds, list(dict.fromkeys(str(cell.seed) for cell in cells)), f"--seeds: {table} has")
        found = [cell for cell in found if str(cell.seed) in numbers]
    found = [cell for cell in found if text in cell.name]
    if not found:
        raise ValueError(f"--only: no cell of {table} so chosen has {text} in its name: --list names them")
    return found


def among(said: str, there: list[str], wrong: str) -> list[str]:
    names = said.split(",")
    for name in names:
        if name not in there:
            raise ValueError(f"{wrong} no {name or 'empty name'}: choose among {','.join(there)}")
    return names
