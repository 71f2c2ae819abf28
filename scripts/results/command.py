"""The command `scripts/reproduce`."""

import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from results.cells import Cell
from results.options import parse
from results.settings import ROOT, SETTINGS

VERSIONS = ("torch", "lightning", "numpy")


def main(
    arguments: Sequence[str] | None = None,
    docs: Path = ROOT / "docs",
    runs: Path = ROOT / "runs" / "reproduce",
) -> int:
    """Run the command; return its exit status: 1 if cells failed, 2 for a mistake or a missing file, 130 if stopped."""
    options = parse(arguments)

    from forecast.system.errors import ForecastError
    from results import page
    from results.progress import run_missing
    from results.runner import Runner
    from results.store import Store

    failed = 0
    try:
        if not options.page:
            store = Store(docs / "results", options.table)
            missing = [cell for cell in options.cells if store.row(cell) is None]
            if options.list:
                for cell in options.cells:
                    print(f"{'missing ' if cell in missing else 'finished'}  {cell.name}")
                return 0
            check_files(missing, options.root)
            threads = max(1, cores() // options.jobs)
            run = Runner(options.root, threads, runs)
            facts = machine(threads) if missing else {}
            failed = run_missing(options.cells, store, run, facts, options.jobs, say)
        page.save(docs)
    except (ForecastError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: the same command resumes from here, also within a cell", file=sys.stderr)
        return 130
    say(f"saved in {docs / 'results.md'}")
    if failed:
        print(f"error: {failed} cells failed: the same command tries them again", file=sys.stderr)
    return 1 if failed else 0


def check_files(cells: Sequence[Cell], root: Path) -> None:
    """Find or download every data set before the first run. Raises DataError for a file that has to be put in place."""
    from hydra.utils import instantiate

    from forecast.cli.compose import compose_config
    from forecast.cli.quoting import quote
    from forecast.system.errors import DataError

    for name in dict.fromkeys(cell.data for cell in cells):
        if "data.root=ROOT" in SETTINGS[name]:
            typed = (SETTINGS[name][0], f"data.root={root}")
            instantiate(
                compose_config(*(quote(override, sweep=False) for override in typed)).data
            ).prepare_data()
        elif name == "weather" and not (root / "weather.csv").is_file():
            raise DataError(
                f"{root / 'weather.csv'}: no such file: put it there by hand: weather/weather.csv of the data sets "
                "that github.com/thuml/Time-Series-Library points to"
            )


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    from joblib import cpu_count

    return cpu_count()


def machine(threads: int) -> dict[str, Any]:
    """Return the hardware and the versions that the cells run on, without the name of the computer."""
    import torch

    from forecast import __version__
    from forecast.tools.benchmark.measurement import describe_hardware

    device = "cuda" if torch.cuda.is_available() else "cpu"
    facts = {key: value for key, value in describe_hardware(device).items() if key in ("device", "system")}
    versions = {"forecast": __version__, **{name: version(name) for name in VERSIONS}}
    return {**facts, "threads": threads, "versions": {**versions, "python": platform.python_version()}}


def say(text: str) -> None:
    print(text, flush=True)
