"""What a run leaves behind: metrics, tables, pictures, and what it says on the screen."""

import dataclasses
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig
from rich.console import Console
from torch import Tensor, nn

from forecast import plots, series_report
from forecast.data import Batch, ForecastData, SeriesData, StoreData
from forecast.files import whole_file
from forecast.forecaster import Forecaster
from forecast.linear_map import fitted_on
from forecast.metrics import SCORES
from forecast.rounding import plural
from forecast.scores import MODEL, Measured, labels, show_scores, which_windows
from forecast.share import MARGIN
from forecast.spread import spread

PICTURED_WINDOWS, PICTURED_VARIABLES = 3, 3
TABLED_VARIABLES = 12  # in forecasts.parquet, which must stay small with hundreds of columns
SHOWN_HISTORY = 120  # steps before a pictured forecast: three horizons up to here, of longer ones one


@dataclasses.dataclass(frozen=True)
class Examples:
    """A few test windows in data units, evenly spread: the same ones whatever the model and its seq_len."""

    numbers: list[int]  # of the windows in the split
    dates: list[pd.DatetimeIndex]  # of each window, history and horizon
    truth: list[np.ndarray]  # of each window (history + pred_len, n_targets)
    forecasts: dict[str, np.ndarray]  # of the model and each baseline (windows, pred_len, n_targets)
    pred_len: int
    series: list[str]  # of each window, where the data is many series

    def table(self, names: list[str], variables: list[int]) -> pd.DataFrame:
        """Long form: a row a window, step (1 … pred_len; history up to 0) and variable; no forecast in history."""
        parts = []
        for w, number in enumerate(self.numbers):
            history = len(self.dates[w]) - self.pred_len
            for v in variables:
                columns = {
                    name: np.concatenate([np.full(history, np.nan), values[w, :, v]])
                    for name, values in self.forecasts.items()
                }
                parts.append(
                    pd.DataFrame(
                        {
                            "window": number,
                            **({"unique_id": self.series[w]} if self.series else {}),
                            "forecast_start": self.dates[w][history],
                            "date": self.dates[w],
                            "step": np.arange(1 - history, self.pred_len + 1),
                            "variable": names[v],
                            "truth": self.truth[w][:, v],
                            **columns,
                        }
                    )
                )
        return pd.concat(parts, ignore_index=True)


def introduce(config: DictConfig, data: ForecastData, model: nn.Module, trainer: L.Trainer) -> None:
    """Say what is about to be trained, on what."""
    slots = config.model.attention
    roles = {slot: slots[slot].role for slot in ("encoder", "cross")}
    roles["decoder"] = model.decoder[0].attention.role  # type: ignore[union-attr, index]
    kinds = ", ".join(
        f"{slot} {slots[slot]._target_.rsplit('.', 1)[-1].removesuffix('Attention')} ({roles[slot]})"
        for slot in ("encoder", "decoder", "cross")
    )
    windows = ", ".join(f"{count:,} {split}" for split, count in data.n_windows.items())
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"data       {data.title}: {data.describe()}")
    shown = ", ".join(data.target_columns[:8]) + (", ..." if data.n_targets > 8 else "")
    console.print(f"forecast   {shown} from {plural(data.n_features, 'column')} (features={config.features})")
    if data.windows_per_epoch < data.n_windows["train"]:
        windows += f"; {data.windows_per_epoch:,} training windows an epoch"
    if data.eval_stride > 1:
        windows += f"; validation and test at one in {data.eval_stride}"
    console.print(f"windows    {windows}; {data.seq_len} steps → {data.pred_len}, season {data.season}")
    lines = series_report.introduced(data) if isinstance(data, SeriesData) else []
    lines += fitted_on(data.windows["train"]) if isinstance(data, SeriesData | StoreData) else []
    for line in lines:
        console.print(line)
    console.print(f"attention  {slots.name}: {kinds}")
    console.print(
        f"model      {config.model._target_.rsplit('.', 1)[-1]}, {sum(p.numel() for p in model.parameters()):,} "
        f"parameters; {trainer.world_size} × {trainer.strategy.root_device.type}, {config.trainer.precision}, "
        f"seed {config.seed}"
    )


def metrics(measured: Measured, data: ForecastData, facts: dict[str, Any]) -> dict[str, Any]:
    """The content of metrics.json."""
    scores = measured.scores
    return {
        "test": scores.pop(MODEL),
        "baselines": scores,
        "skill": measured.skill,
        "intervals": measured.intervals,
        "best_baseline": measured.best_baseline,
        "n_windows": data.n_windows,
        **facts,
    }


def save(folder: Path, measured: Measured, data: ForecastData, shown: Examples) -> None:
    """Write the tables: errors by step, variable and window, and the pictured forecasts."""
    steps = {f"{n}_{s}": e.by_step()[s].numpy() for n, e in measured.errors.items() for s in ("mse", "mae")}
    variables = {f"{n}_{s}": e.by_variable()[s].numpy() for n, e in measured.errors.items() for s in SCORES}
    test = data.windows["test"]
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
        index = torch.arange(len(test))
        windows = pd.DataFrame({"forecast_start": data.dates(test.origins(index).numpy()), **each})
        if isinstance(data, SeriesData):
            windows.insert(0, "unique_id", data.names_of(test.series(index)))
        windows.to_parquet(temporary, index=False)
    if isinstance(data, SeriesData):
        with whole_file(folder / "errors_by_series.parquet") as temporary:
            series_report.by_series(data, measured).to_parquet(temporary, index=False)
    with whole_file(folder / "forecasts.parquet") as temporary:
        table = shown.table(list(data.target_columns), spread(data.n_targets, TABLED_VARIABLES).tolist())
        table.to_parquet(temporary, index=False)


def examples(forecaster: Forecaster, data: ForecastData, measured: Measured) -> Examples:
    """Forecast a few test windows with the model and every baseline."""
    test = data.windows["test"]
    chosen = torch.linspace(
        0, len(test) - 1, min(PICTURED_WINDOWS, len(test)), device=test.values.device
    ).long()
    batch = test.gather(chosen)
    scaled = {MODEL: predict(forecaster, batch)}
    scaled |= {name: baseline(test, batch) for name, baseline in measured.baselines.items()}
    shown = min(test.seq_len, max(test.pred_len, min(3 * test.pred_len, SHOWN_HISTORY)))
    rows = test.origins(chosen)[:, None] + torch.arange(-shown, test.pred_len, device=chosen.device)
    series = test.series(chosen)

    def units(values: Tensor) -> np.ndarray:
        return data.unscale_targets(values.float(), series).cpu().numpy()

    return Examples(
        chosen.tolist(),
        [data.dates(r) for r in rows.cpu().numpy()],
        list(units(test.values[rows][..., test.target_index])),
        {name: units(prediction) for name, prediction in scaled.items()},
        test.pred_len,
        data.names_of(series).tolist() if isinstance(data, SeriesData) else [],
    )


def pictures(
    folder: Path, forecaster: Forecaster, data: ForecastData, measured: Measured, shown: Examples
) -> dict[str, Path]:
    """Draw the forecasts of a few test windows, and the error along the horizon."""
    rival = measured.best_baseline
    called = labels(forecaster.hparams["model"]["attention"]["name"])
    variables = spread(data.n_targets, PICTURED_VARIABLES).tolist()
    figures = {
        "forecasts": plots.forecast_figure(
            shown.dates,
            [truth[:, variables] for truth in shown.truth],
            {called[name]: list(shown.forecasts[name][..., variables]) for name in (MODEL, rival)},
            [data.target_columns[v] for v in variables],
            data.pred_len,
            f"{data.title}: {data.pred_len} steps ahead, test windows",
            shown.series,
        ),
        "error_by_step": plots.step_figure(
            {
                called[name]: measured.errors[name].by_step()["mse"].numpy()
                for name in (MODEL, "linear", "seasonal_naive", "naive")
            },
            f"{data.title}: error along the horizon, {len(data.windows['test']):,} test windows",
        ),
    }
    paths = {name: folder / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        plots.save(figure, paths[name])
    return paths


@torch.no_grad()
def predict(forecaster: Forecaster, batch: Batch) -> Tensor:
    """Scaled forecasts, computed in the weights' own precision."""
    forecaster.eval()
    weights = next(forecaster.parameters())
    device = batch.past.device
    past, past_time, future, future_time = (part.to(weights) for part in batch[:4])
    with torch.compiler.set_stance("force_eager"):  # a few windows, maybe on another device than in training
        batch = Batch(past, past_time, future, future_time, batch.index)
        return forecaster.point(forecaster(batch)).to(device)


def show(content: dict[str, Any], measured: Measured, data: ForecastData, folder: Path) -> None:
    """Print the test's scores, what the run took, and where everything is."""
    show_scores(f"test: {data.title}, {which_windows(data, 'test')}", content["attention"], measured)
    console = Console(markup=False)
    if isinstance(data, SeriesData):
        for line in series_report.described(data, measured):
            console.print(line, soft_wrap=True)
    epoch, share = f"epoch {content['best_epoch']} of {content['epochs']}", content["share"]
    if content["best_epoch"] == 0:
        tested = f"the model before training, its linear map alone; no epoch was {MARGIN:.0%} better"
    elif share < 0.995:
        tested = f"the linear map and {share:.0%} of what {epoch} adds to it, the best"
    else:
        tested = f"{epoch}, the best"
    console.print(f"tested: {tested} on validation windows", soft_wrap=True)
    console.print(
        f"{content['seconds']:.0f} s, {content['windows_per_second']:.0f} windows/s in training, "
        f"{content['ms_per_window']:.3g} ms a window in the test, "
        f"{content['n_parameters']:,} parameters, {content['peak_memory_mb']:.0f} MiB at the peak"
    )
    console.print(f"saved in {folder}", soft_wrap=True)
