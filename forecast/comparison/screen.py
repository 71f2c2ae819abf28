"""The comparison on the screen: a compact table a task."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecast.comparison import papers
from forecast.comparison.runs import LeftOut
from forecast.comparison.tables import counted, loses, verdict
from forecast.comparison.tasks import Task


def show(tasks: Sequence[Task], left_out: Sequence[LeftOut]) -> None:
    """The best variant in bold, baselines dim; what a variant loses to is said."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200  # in a file, rows must not be folded
    for task in tasks:
        table = Table(title=Text(f"{task.title}: {counted(len(task.best.losses), 'test window')}"))
        for heading in (*papers.HEADINGS, "verdict"):
            table.add_column(heading, justify="left" if heading in ("variant", "verdict") else "right")
        for entry, found in papers.lines(task):
            style = "bold" if entry is task.best else "dim" if entry.is_baseline else None
            what = verdict(task, entry) + (
                f"; loses to {task.best_baseline.name}" if loses(task, entry) else ""
            )
            cells = [entry.name, papers.seeds(entry), *(text for text, _ in found), what]
            table.add_row(*map(Text, cells), style=style)
        console.print(table)
        if alone := task.maps_alone:
            console.print(Text(alone), soft_wrap=True)
    for run in left_out:
        console.print(Text(f"left out: {run.folder.name}: {run.reason}"), soft_wrap=True)
