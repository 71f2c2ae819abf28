"""Run the missing cells of a table, several at a time, and report progress."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol

from results.cells import Cell
from results.runner import CellFailed
from results.store import Row, Store


class Run(Protocol):
    def __call__(self, cell: Cell, /) -> Row: ...

    def stop(self) -> None: ...


def run_missing(
    cells: Sequence[Cell],
    store: Store,
    run: Run,
    machine: dict[str, Any],
    jobs: int,
    say: Callable[[str], None],
) -> int:
    """Run the missing cells; return how many failed. A finished cell is saved at once; a failed one stays missing."""
    missing = [cell for cell in cells if store.row(cell) is None]
    say(f"{len(cells)} cells of {store.table}, {len(cells) - len(missing)} finished before")
    began, failed = time.monotonic(), 0

    def one(cell: Cell) -> tuple[Row, float]:
        started = time.monotonic()
        row = run(cell)
        store.add(cell, row, machine)
        return row, time.monotonic() - started

    with ThreadPoolExecutor(jobs) as pool:
        try:
            futures = {pool.submit(one, cell): cell for cell in missing}
            for number, future in enumerate(as_completed(futures), 1):
                name = f"cell {number} of {len(missing)}: {futures[future].name}:"
                try:
                    row, seconds = future.result()
                    say(f"{name} {told(row)}; {duration(seconds)}{left(began, number, len(missing))}")
                except CellFailed as error:
                    failed += 1
                    say(f"{name} failed: {error}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            run.stop()
            raise
    return failed


def told(row: Row) -> str:
    return f"MSE {row['mse']:.4f}, MAE {row['mae']:.4f}, linear baseline {row['linear_mse']:.4f}"


def left(began: float, number: int, total: int) -> str:
    """Estimate the remaining time from the mean time of the cells that this command has run."""
    if number == total:
        return ""
    return f"; about {duration((time.monotonic() - began) / number * (total - number))} left"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"
