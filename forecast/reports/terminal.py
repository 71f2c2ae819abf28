"""Scores as they are printed in the terminal."""

import math

from rich.console import Console
from rich.table import Table

from forecast.data import DataModule
from forecast.evaluation.errors import SCORES
from forecast.evaluation.results import LABELS, MODEL, Results
from forecast.system.formatting import alike


def which_windows(data: DataModule, split: str) -> str:
    """The number of windows of a split that were scored, in words."""
    count, stride = f"{data.n_windows[split]:,} windows", data.eval_stride
    return f"{count}, every one counted" if stride == 1 or split == "train" else f"{count}, every {stride}th"


def skill_in_words(skill: float, rival: str) -> str:
    """The meaning of a skill beside `rival`, the best baseline; the skill is NaN if that baseline makes no error."""
    if math.isnan(skill):
        return f"no skill can be given: {rival}, the best baseline, makes no error here; use {rival}"
    percent = f"{100 * abs(skill):.1f}%"
    if percent == "0.0%":
        return f"skill 0.000: level with {rival}, the best baseline"
    if skill > 0:
        return f"skill {skill:.3f}: {percent} less squared error than {rival}, the best baseline"
    return f"skill {skill:.3f}: WORSE than {rival} by {percent} in squared error; use {rival}"


def print_scores(title: str, attention: str, results: Results) -> None:
    """Print the table of scores, the meaning of the skill, and the quality of the intervals."""
    table = Table(title=title)
    table.add_column("attention,\nor baseline")
    for heading in ("MSE", "MAE", "RMSE", "MAE", "sMAPE", "WAPE", "MASE"):
        table.add_column(heading, justify="right")
    table.columns[1].header, table.columns[2].header = "MSE\nscaled", "MAE\nscaled"
    table.columns[3].header, table.columns[4].header = "RMSE\nunits", "MAE\nunits"
    columns = [alike(scores[s] for scores in results.scores.values()) for s in SCORES]
    for name, *row in zip(results.scores, *columns, strict=True):
        table.add_row(LABELS.get(name, attention), *row, style="bold" if name == MODEL else None)
    console = Console(markup=False)
    console.print(table)
    console.print(skill_in_words(results.skill, LABELS[results.best_baseline]))
    for method, scores in results.intervals.items():
        levels = "; ".join(
            f"{level}% holds {100 * score['coverage']:.1f}%, width {score['width']:.3f}"
            for level, score in scores.items()
            if isinstance(score, dict)
        )
        console.print(f"intervals, {method}: {levels or 'none'}; CRPS {scores['crps']:.3f} (scaled)")
