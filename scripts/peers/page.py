"""Tables of what was measured: on the terminal, and as a page with what is equal and what is not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from forecast.files import whole_file, write_json
from tables import markdown_table

WIDTH = 100  # of the terminal, at least: no cell is cut or broken

STEPS = """\
Every side is timed once a round, in turn, in one process: medians, with the fastest and the slowest round.
Forward, backward and Adam (fused, on all sides); dropout 0.05, factor 5, 4 calendar features, distilling.

Equal: d_model, heads, d_ff, layers, batch, lengths, optimizer; bfloat16 is autocast on all sides.

Not equal:

- neuralforecast's model is univariate: its windows hold 1 column, ours and transformers' 7. The times are for as many
  windows; to forecast 7 columns it needs 7 times as many. Its cross-attention is ProbSparse, the others' is full.
- transformers' decoder reads the horizon alone (the values one step before each), not label_len steps as well: fewer
  positions to compute. Its loss is its own, the negative log-likelihood of Student's t; the others' is MSE.
"""
LAYERS = """\
Forward and backward of one self-attention layer: projections, landmarks, pseudo-inverse of 6 iterations, and a
convolution of kernel 33. transformers keeps the output projection in another class: a linear layer stands for it here.

Not equal: transformers starts all pseudo-inverses of a batch from one scale, ours starts each from its own.
"""
ACCURACY = """\
ETTh1, all 7 columns, 48 hours → 24 (label_len 48, factor 3), 12/4/4 months, scaled by the training rows; Adam 1e-4, the
paper's schedule, d_model 128, d_ff 512, 8 heads, 2+1 layers, batches of 32 windows, one seed; the epoch of lowest
validation MSE; all test windows.

Equal: sizes, windows and their order, steps and epochs, the way scores are counted.

Not equal:

- neuralforecast's model takes each column of a window as a window of its own: a step sees 32 × 7 univariate ones, and
  forecasts no column from another.
- transformers' model learns to say each step from the true one before it, by the likelihood of Student's t. It
  forecasts step by step, each step's mean handed on.
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
            "Training step of the Informer, against neuralforecast in float32",
            STEPS,
            ["seq/label/pred", *times],
            timed(results["steps"], "neuralforecast"),
        ),
        Section(
            "Nyström self-attention, against transformers",
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


def timed(rows: list[dict[str, Any]], yardstick: str) -> list[list[str]]:
    """Milliseconds, and how many times faster than the yardstick's float32 in the same case."""
    against = {
        row["case"]: row["median"]
        for row in rows
        if row["model"] == yardstick and row["precision"] == "float32"
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
    """peers.json and peers.md, or those of --train, each whole or not at all."""
    stem = "peers-trained" if results["accuracy"] else "peers"
    write_json(folder / f"{stem}.json", results)
    with whole_file(folder / f"{stem}.md") as temporary:
        temporary.write_text(page(results))


def page(results: dict[str, Any]) -> str:
    hardware, versions = results["hardware"], results["versions"]
    lines = [
        "# Beside other implementations",
        "",
        f"`{results['command']}` on {hardware['device']}, {hardware['threads']} threads, {hardware['system']}; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + ".",
        "",
    ]
    for section in sections(results):
        lines += [f"## {section.title}", "", section.notes, *markdown_table(section.header, section.rows), ""]
    return "\n".join(lines)
