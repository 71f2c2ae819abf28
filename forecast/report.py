"""What a run leaves behind: metrics, tables, pictures, and what it says on the screen."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from forecast import plots
from forecast.baselines import Baseline, baselines, score
from forecast.data import Batch, ForecastData
from forecast.files import whole_file, write_json
from forecast.forecaster import Forecaster
from forecast.metrics import SCORES, ErrorSums

MODEL = "model"
PICTURED_WINDOWS, PICTURED_VARIABLES = 3, 3
LABELS = {"naive": "naive", "seasonal_naive": "seasonal naive", "linear": "linear"}


@dataclasses.dataclass(frozen=True)
class Measured:
    """Errors on the test split of the model (first) and of each baseline, and of each window (n_windows, 2)."""

    errors: dict[str, ErrorSums]
    windows: dict[str, Tensor]
    baselines: dict[str, Baseline]

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        return {name: errors.scores() for name, errors in self.errors.items()}

    @property
    def best_baseline(self) -> str:
        return min(LABELS, key=lambda name: self.scores[name]["mse"])

    @property
    def skill(self) -> float:
        """1 − MSE / the best baseline's MSE: the share of its error that the model removes.

        NaN where that baseline makes no error at all, and nothing is left to remove.
        """
        scores = self.scores
        rival = scores[self.best_baseline]["mse"]
        return 1 - scores[MODEL]["mse"] / rival if rival > 0 else math.nan


def introduce(config: DictConfig, data: ForecastData, model: nn.Module, trainer: L.Trainer) -> None:
    """Say what is about to be trained, on what."""
    slots = config.model.attention
    kinds = ", ".join(
        f"{slot} {slots[slot]._target_.rsplit('.', 1)[-1].removesuffix('Attention')} ({slots[slot].role})"
        for slot in ("encoder", "decoder", "cross")
    )
    windows = ", ".join(f"{count:,} {split}" for split, count in data.n_windows.items())
    dates, columns = data.table.dates, data.table.columns
    console = Console(soft_wrap=True, highlight=False)
    console.print(
        f"data       {data.name}: {len(dates):,} rows × {len(columns)} columns, every {data.freq}, "
        f"{dates[0]} to {dates[-1]}"
    )
    shown = ", ".join(data.target_columns[:8]) + (", ..." if data.n_targets > 8 else "")
    console.print(f"forecast   {shown} from {data.n_features} columns (features={config.features})")
    console.print(f"windows    {windows}; {data.seq_len} steps → {data.pred_len}, season {data.season}")
    console.print(f"attention  {slots.name}: {kinds}")
    console.print(
        f"model      {config.model._target_.rsplit('.', 1)[-1]}, {sum(p.numel() for p in model.parameters()):,} "
        f"parameters; {trainer.num_devices} × {trainer.strategy.root_device.type}, {config.trainer.precision}, "
        f"seed {config.seed}"
    )


def measure(forecaster: Forecaster, data: ForecastData) -> Measured:
    """The tested forecaster beside the baselines on the same windows."""
    errors, windows = {MODEL: forecaster.errors}, {MODEL: forecaster.test_windows}
    rules = baselines(data)
    for name, baseline in rules.items():
        errors[name], windows[name] = score(baseline, data)
    return Measured(errors, windows, rules)


def metrics(measured: Measured, data: ForecastData, facts: dict[str, Any]) -> dict[str, Any]:
    """The content of metrics.json."""
    scores = measured.scores
    return {
        "test": scores.pop(MODEL),
        "baselines": scores,
        "skill": measured.skill,
        "best_baseline": measured.best_baseline,
        "n_windows": data.n_windows,
        **facts,
    }


def save(folder: Path, content: dict[str, Any], measured: Measured, data: ForecastData) -> None:
    """Write the tables, and metrics.json last: it marks the run as finished."""
    steps = {f"{n}_{s}": e.by_step()[s].numpy() for n, e in measured.errors.items() for s in ("mse", "mae")}
    variables = {f"{n}_{s}": e.by_variable()[s].numpy() for n, e in measured.errors.items() for s in SCORES}
    test = data.windows["test"]
    first = test.first_row + test.seq_len
    each = {
        f"{name}_{s}": values[:, i].numpy()
        for name, values in measured.windows.items()
        for i, s in enumerate(("mse", "mae"))
    }
    with whole_file(folder / "errors_by_step.csv") as temporary:
        pd.DataFrame({"step": np.arange(1, data.pred_len + 1), **steps}).to_csv(temporary, index=False)
    with whole_file(folder / "errors_by_variable.csv") as temporary:
        pd.DataFrame({"variable": data.target_columns, **variables}).to_csv(temporary, index=False)
    with whole_file(folder / "errors_by_window.parquet") as temporary:
        forecast_start = data.table.dates[first : first + len(test)]
        pd.DataFrame({"forecast_start": forecast_start, **each}).to_parquet(temporary, index=False)
    write_json(folder / "metrics.json", content)


def pictures(folder: Path, forecaster: Forecaster, data: ForecastData, measured: Measured) -> dict[str, Path]:
    """Draw the forecasts of a few test windows, and the error along the horizon."""
    test = data.windows["test"]
    chosen = torch.linspace(
        0, len(test) - 1, min(PICTURED_WINDOWS, len(test)), device=test.values.device
    ).long()
    batch = test.gather(chosen)
    rival = measured.best_baseline
    model_name = str(forecaster.hparams["model"]["attention"]["name"])
    forecasts = {
        model_name: predict(forecaster, batch),
        LABELS[rival]: measured.baselines[rival](test, batch),
    }
    variables = shown_variables(data)
    shown = min(test.seq_len, 3 * test.pred_len)  # steps of history in the picture
    first = test.first_row + test.seq_len - shown
    rows = [range(first + i, first + i + shown + test.pred_len) for i in chosen.tolist()]

    def units(scaled: Tensor) -> np.ndarray:
        return data.unscale_targets(scaled.float()).cpu().numpy()[..., variables]

    truth = [units(test.values[r.start : r.stop][:, test.target_index]) for r in rows]
    figures = {
        "forecasts": plots.forecast_figure(
            [data.table.dates[r.start : r.stop] for r in rows],
            truth,
            {name: list(units(prediction)) for name, prediction in forecasts.items()},
            [data.target_columns[v] for v in variables],
            test.pred_len,
            f"{data.name}: {test.pred_len} steps ahead, test windows",
        ),
        "error_by_step": plots.step_figure(
            {
                LABELS.get(name, model_name): measured.errors[name].by_step()["mse"].numpy()
                for name in (MODEL, "linear", "seasonal_naive", "naive")
            },
            f"{data.name}: error along the horizon, {len(test):,} test windows",
        ),
    }
    paths = {name: folder / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        plots.save(figure, paths[name])
    return paths


def shown_variables(data: ForecastData) -> list[int]:
    """A few target columns: evenly spread, the last always among them."""
    n = data.n_targets
    return sorted({n - 1, *range(0, n, math.ceil(n / PICTURED_VARIABLES))})[-PICTURED_VARIABLES:]


@torch.no_grad()
def predict(forecaster: Forecaster, batch: Batch) -> Tensor:
    """Scaled forecasts, computed in the weights' own precision."""
    forecaster.eval()
    weights = next(forecaster.parameters())
    past, past_time, future, future_time = (part.to(weights) for part in batch[:4])
    with torch.compiler.set_stance("force_eager"):  # a few windows, maybe on another device than in training
        return forecaster(Batch(past, past_time, future, future_time, batch.index)).to(batch.past)


def show(content: dict[str, Any], measured: Measured, folder: Path) -> None:
    """Print the test table, what the skill means, and where everything is."""
    table = Table(
        title=f"test: {content['data']}, {content['n_windows']['test']:,} windows, every one counted"
    )
    table.add_column("")
    for heading in ("MSE", "MAE", "RMSE", "MAE", "sMAPE", "WAPE", "MASE"):
        table.add_column(heading, justify="right")
    table.columns[1].header, table.columns[2].header = "MSE\nscaled", "MAE\nscaled"
    table.columns[3].header, table.columns[4].header = "RMSE\nunits", "MAE\nunits"
    for name, scores in measured.scores.items():
        label = content["attention"] if name == MODEL else LABELS[name]
        table.add_row(label, *(f"{scores[s]:.3f}" for s in SCORES), style="bold" if name == MODEL else None)
    console = Console()
    console.print(table)
    rival, skill = LABELS[measured.best_baseline], measured.skill
    if math.isnan(skill):
        console.print(f"no skill can be given: {rival}, the best baseline, makes no error here; use {rival}")
    elif skill > 0:
        console.print(
            f"skill {skill:.3f}: {100 * skill:.1f}% less squared error than {rival}, the best baseline"
        )
    else:
        console.print(
            f"skill {skill:.3f}: WORSE than {rival} by {-100 * skill:.1f}% in squared error; use {rival}"
        )
    console.print(
        f"{content['seconds']:.0f} s, {content['windows_per_second']:.0f} windows/s in training, "
        f"{content['n_parameters']:,} parameters, {content['peak_memory_mb']:.0f} MiB at the peak"
    )
    console.print(f"saved in {folder}", soft_wrap=True)
