"""The command `scripts/reproduce`."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import environment
from experiments.cells import ROOT, TABLES

DEFAULTS = {"--jobs": 1, "--threads": 1, "--root": ROOT / "data", "--only": "", "--run": ""}


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = Parser(
        prog="scripts/reproduce",
        description="Run the missing cells of a table, and write the tables of the pages in docs/. Finished cells are "
        "saved in docs/results/TABLE.json or docs/benchmarks/TABLE.json, so the same command resumes an interrupted "
        "table. A cell whose overrides have changed is run again.",
        epilog=f"tables: {', '.join(TABLES)}",
    )
    meanings = {
        "table": "one of the tables below; without it, only the pages are written",
        "--jobs N": "cells that run at a time (default: 1)",
        "--threads N": "threads of each cell (default: 1)",
        "--root FOLDER": "folder of the data files; ETT files are downloaded if they are missing (default: data)",
        "--only TEXT": "only cells whose name contains TEXT",
        "--published FILE": "published scores of a leaderboard, among which ours are ranked",
        "--run RUN": "run folder of the model that the table `serve` serves",
        "--env FOLDER": "environment for other libraries, made if it is missing (default: a temporary one)",
    }
    for name, said in meanings.items():
        flag, _, value = name.partition(" ")
        kind = {"N": int, "FOLDER": Path, "FILE": Path}.get(value, str)
        extra = {"nargs": "?"} if name == "table" else {"default": DEFAULTS.get(flag)}
        parser.add_argument(flag, metavar=value or "TABLE", type=kind, help=said, **extra)  # pyright: ignore
    parser.add_argument("--again", action="store_true", help="run finished cells too, and replace results")
    parser.add_argument("--list", action="store_true", help="list the cells, and whether they are finished")
    options = parser.parse_args(arguments)
    if options.table is not None and options.table not in TABLES:
        parser.error(f"there is no table {options.table}: choose one of {', '.join(TABLES)}")
    if min(options.jobs, options.threads) < 1:
        parser.error("--jobs and --threads take whole numbers of at least 1")
    return options


def main(arguments: Sequence[str] | None = None, docs: Path = ROOT / "docs", runs: Path = ROOT / "runs") -> int:
    """Run the command; return its exit status: 1 if cells failed, 2 for a mistake or a missing file, 130 if stopped."""
    options = parse(arguments)
    try:
        failed = run_table(options, docs, runs / "reproduce") if options.table else 0
        if not options.list and (docs / "results.md").exists():
            from experiments import page

            page.write_pages(docs)
    except (environment.SetUpError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: the same command goes on from here", file=sys.stderr)
        return 130
    if failed:
        print(f"error: {failed} cells failed: the same command tries them again", file=sys.stderr)
    return 1 if failed else 0


def run_table(options: argparse.Namespace, docs: Path, runs: Path) -> int:
    table = TABLES[options.table]
    if not options.list and (missing := environment.list_missing(table.packages)):
        run_in_environment(options.env, missing)
    from experiments.run import Context, run_missing
    from experiments.store import Store, describe_machine

    cells = table.list_cells(options.table)
    store = Store(docs / table.folder / f"{options.table}.json", cells)
    chosen = [cell for cell in cells if options.only in cell.name]
    if not chosen:
        raise ValueError(f"--only {options.only}: no cell of {options.table} has this in its name; see --list")
    if options.list:
        for cell in chosen:
            print(f"{'missing ' if store.row(cell) is None else 'finished'}  {cell.name}")
        return 0
    context = Context(options.root.absolute(), options.threads, runs, options.run)
    machine, run = describe_machine(options.threads), table.load(table.run)
    failed = run_missing(chosen, store, run, context, machine, options.jobs, again=options.again)
    if options.published:
        write, out = table.load("write_ranking"), store.path.with_suffix(".csv")
        write(options.table, store.rows(), options.published, out)
    return failed


def run_in_environment(folder: Path | None, packages: Sequence[str]) -> NoReturn:
    """Run this command again in an environment that has these packages too."""
    with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
        print(f"installing {', '.join(packages)}", file=sys.stderr, flush=True)
        pins = ("--constraint", str(ROOT / "constraints.txt"))
        python = environment.make_environment(folder or Path(temporary, "env"), packages, *pins)
        sys.exit(os.spawnv(os.P_WAIT, python, [python, str(ROOT / "scripts" / "reproduce"), *sys.argv[1:]]))
