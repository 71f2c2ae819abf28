"""Tables of the measurements for the terminal and for docs/benchmarks/peers.md, with the differences in settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from forecast.system.files import atomic_file, write_json
from tables import markdown_table

WIDTH = 100  # least width of the printed tables, so that no cell is cut

STEPS = """\
All implementations are timed once per round, in turn, in one process. The table shows the median, the fastest and the
slowest round of forward pass, backward pass and Adam (fused), with dropout 0.05, factor 5, 4 calendar features and
distilling.

Equal settings: d_model, heads, d_ff, layers, batch, lengths and optimizer. bfloat16 means autocast in all cases.

Differences:

- The model of neuralforecast is univariate: its windows have 1 column, those of the other two have 7. The times are
  for the same number of windows. To forecast 7 columns, neuralforecast needs 7 times as many windows. Its
  cross-attention is ProbSparse; the other two use full cross-attention.
- The decoder of transformers reads only the horizon (the value one step before each), without the label_len steps, so
  it computes fewer positions. Its loss is the negative log-likelihood of Student's t; the other two use MSE.
"""
LAYERS = """\
Forward and backward pass of one self-attention layer: projections, landmarks, pseudo-inverse with 6 iterations, and a
convolution with kernel 33. In transformers, the output projection is in another class; a linear layer replaces it
here.

Difference: transformers starts all pseudo-inverses of a batch from one scale. This project starts each from its own
scale.
"""
ACCURACY = """\
Data: ETTh1, all 7 columns, 48 hours → 24 (label_len 48, factor 3), 12/4/4 months, scaled by the training rows.
Training: Adam with learning rate 1e-4 and the schedule of the paper, d_model 128, d_ff 512, 8 heads, 2 + 1 layers,
batches of 32 windows, one seed. The epoch with the lowest validation MSE is tested on all test windows.

Equal settings: sizes, windows and their order, steps and epochs, and the computation of the scores.

Differences:

- The model of neuralforecast treats each column of a window as a separate window: a step sees 32 × 7 univariate
  windows, and no column is forecast from another.
- The model of transformers learns to predict each step from the true previous step, with the likelihood of Student's
  t. It forecasts step by step and feeds the mean of each step back.
"""


@dataclass(frozen=True)
class Section:
    title: str
    notes: str
    header: list[str]
    rows: list[list[str]]


def sections(results: dict[str, Any]) -> list[Section]:
    times = ["model", "precision", "ms", "fastest – slowest", "× faster"]
    scores = ["model", "precision", "parameters", "test MSE", "test MAE"]
    found = [
        Section(
            "Training step of the Informer, compared with neuralforecast in float32",
            STEPS,
            ["seq/label/pred", *times],
            timed(results["steps"], "neuralforecast"),
        ),
        Section(
            "Nyström self-attention, compared with transformers",
            LAYERS,
            ["length", *times],
            timed(results["layers"], "transformers"),
        ),
        Section("Test scores", ACCURACY, scores, [scored(row) for row in results["accuracy"]]),
    ]
    return [section for section in found if section.rows]


def scored(row: dict[str, Any]) -> list[str]:
    errors = [f"{row[name]:.3f}" for name in ("test_mse", "test_mae")]
    return [row["model"], row["precision"], f"{row['parameters']:,}", *errors]


def timed(rows: list[dict[str, Any]], reference: str) -> list[list[str]]:
    """Milliseconds, and the speed-up over the reference implementation in float32 in the same case."""
    against = {
        row["case"]: row["median"]
        for row in rows
        if row["model"] == reference and row["precision"] == "float32"
    }
    return [
        [
            row["case"], row["model"], row["precision"], f"{1000 * row['median']:.1f}",
            f"{1000 * row['fastest']:.1f} – {1000 * row['slowest']:.1f}", f"{against[row['case']] / row['median']:.2f}",
        ]
        for row in rows
    ]  # fmt: skip


def show(results: dict[str, Any]) -> None:
    console = Console()
    console = Console(width=max(console.width, WIDTH))
    for section in sections(results):
        table = Table(title=section.title)
        for name in section.header:
            table.add_column(name)
        for row in section.rows:
            table.add_row(*row)
        console.print(table)


def save(folder: Path, results: dict[str, Any]) -> None:
    """Write peers.json and peers.md, or peers-trained.json and peers-trained.md, each atomically."""
    stem = "peers-trained" if results["accuracy"] else "peers"
    write_json(folder / f"{stem}.json", results)
    with atomic_file(folder / f"{stem}.md") as temporary:
        temporary.write_text(page(results))


def page(results: dict[str, Any]) -> str:
    hardware, versions = results["hardware"], results["versions"]
    lines = [
        "# Comparison with other implementations",
        "",
        f"`{results['command']}` on {hardware['device']}, {hardware['threads']} threads, {hardware['system']}; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + ".",
        "",
    ]
    for section in sections(results):
        lines += [f"## {section.title}", "", section.notes, *markdown_table(section.header, section.rows), ""]
    return "\n".join(lines)
