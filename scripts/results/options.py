"""Command line of scripts/reproduce. Standard library only."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from arguments import folder, positive
from results.cells import TABLES, Cell
from results.settings import ROOT


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options; `cells` are the selected cells."""
    parser = Parser(
        prog="scripts/reproduce",
        description="Run the missing cells of a table of docs/results.md, and write the page. A cell is one training "
        "run. Finished cells are saved in docs/results/TABLE.json, so the same command resumes an interrupted table.",
        epilog=f"tables: {', '.join(TABLES)}",
    )
    parser.add_argument("table", nargs="?", metavar="TABLE", help="one of the tables below")
    parser.add_argument(
        "--jobs",
        type=positive,
        default=1,
        metavar="N",
        help="cells that run at a time (default: 1)",
    )
    parser.add_argument(
        "--root", type=folder, default=ROOT / "data", metavar="FOLDER",
        help="folder of the data files, which are downloaded if they are missing (default: data)",
    )  # fmt: skip
    parser.add_argument("--attention-types", metavar="TYPE,TYPE", help="only these attention types")
    parser.add_argument("--seeds", metavar="N,N", help="only these seeds")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cells whose name contains TEXT")
    parser.add_argument("--list", action="store_true", help="list the cells, and whether they are finished")
    parser.add_argument(
        "--page", action="store_true", help="only write docs/results.md from the finished cells"
    )
    options = parser.parse_args(arguments)
    if options.page:
        if options.table or options.list:
            parser.error("--page goes alone: the page is written from every table")
        return options
    if options.table not in TABLES:
        said = "no table was named" if options.table is None else f"there is no table {options.table}"
        parser.error(f"{said}: choose one of {', '.join(TABLES)}")
    try:
        options.cells = chosen(TABLES[options.table], options.attention_types, options.seeds, options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def chosen(cells: Sequence[Cell], types: str | None, seeds: str | None, text: str) -> list[Cell]:
    """Select cells by attention type, seed and a part of the name. Raises ValueError for values that no cell has."""
    table = cells[0].table
    found = list(cells)
    if types is not None:
        there = list(dict.fromkeys(cell.attention for cell in cells))
        names = among(types, there, f"--attention-types: {table} has")
        found = [cell for cell in found if cell.attention in names]
    if seeds is not None:
        numbers = among(seeds, list(dict.fromkeys(str(cell.seed) for cell in cells)), f"--seeds: {table} has")
        found = [cell for cell in found if str(cell.seed) in numbers]
    found = [cell for cell in found if text in cell.name]
    if not found:
        raise ValueError(f"--only: no cell of {table} so chosen has {text} in its name: --list names them")
    return found


def among(said: str, there: list[str], wrong: str) -> list[str]:
    """Split a list of values. Raises ValueError for a value that is not in `there`."""
    names = said.split(",")
    for name in names:
        if name not in there:
            raise ValueError(f"{wrong} no {name or 'empty name'}: choose among {','.join(there)}")
    return names
