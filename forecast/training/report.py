"""The report of a run: metrics, tables, example forecasts and figures in its folder, and the lines that it prints."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig
from rich.console import Console
from torch import Tensor

from forecast.data import DataModule
from forecast.data.covariates import describe_known
from forecast.data.panel import ID_COLUMN, describe_missing, describe_panel, id_columns
from forecast.data.time_features import choose_evenly_spaced
from forecast.evaluation.baselines import NaiveShrinkage
from forecast.evaluation.measurement import Results
from forecast.evaluation.scores import BASELINES, FEW_HORIZONS, LABELS, MODEL, Level, bounds, labels, name_tested
from forecast.models import ForecastModel
from forecast.models.base import FULL_WEIGHT
from forecast.reports import figures, inputs, scores
from forecast.reports.plots import name_step_ahead
from forecast.system import signals
from forecast.system.files import atomic_file
from forecast.system.formatting import plural, shorten
from forecast.system.keys import FILE_SOURCES
from forecast.training.checkpointing import describe_untrained
from forecast.training.create_model import summarize_attention
from forecast.training.module import Forecaster, compute_output

MAX_PLOTTED = 3  # largest number of variables in forecasts.png
MAX_TABLED = 12  # largest number of variables in forecasts.parquet, which must stay small with hundreds of columns
MAX_EXAMPLES = 3  # largest number of example windows

MAX_HISTORY = 120
"""Largest number of steps of history before a forecast: three horizons, cut to this number but not below one."""

MAX_NAMED = 8  # largest number of columns that a line names


@dataclass(frozen=True)
class Examples:
    """A few test windows in original units, evenly spaced; the choice does not depend on the model or its seq_len.

    `bands`: the model's intervals of the lowest level, its lower and upper bounds; empty without intervals.
    """

    numbers: list[int]
    dates: list[pd.DatetimeIndex]  # dates of each window, history and horizon
    truth: list[np.ndarray]  # true values of each window (history + pred_len, n_targets)
    forecasts: dict[str, np.ndarray]  # forecasts of the model and each baseline (windows, pred_len, n_targets)
    bands: dict[Level, tuple[np.ndarray, np.ndarray]]
    ids: dict[str, list[str]]  # the column with the id of each window's series; empty if the data has no ids

    def tabulate(self, names: list[str], variables: list[int], pred_len: int) -> pd.DataFrame:
        """Arrange in long form: one row per window, step (history up to 0, horizon from 1) and variable."""
        parts = []
        for w, number in enumerate(self.numbers):
            history = len(self.dates[w]) - pred_len
            for v in variables:
                facts = {
                    "window": number,
                    **{name: ids[w] for name, ids in self.ids.items()},
                    "forecast_start": self.dates[w][history],
                    "date": self.dates[w],
                    "step": np.arange(1 - history, pred_len + 1),
                    "variable": names[v],
                    "truth": self.truth[w][:, v],
                }
                unknown = np.full(history, np.nan)
                forecasts = {
                    name: np.concatenate([unknown, values[w, :, v]]) for name, values in self.forecasts.items()
                }
                parts.append(pd.DataFrame({**facts, **forecasts}))
        return pd.concat(parts, ignore_index=True)


class RunReport(NamedTuple):
    """The report of a run."""

    folder: Path
    data: DataModule
    metrics: dict[str, Any]
    results: Results
    by_series: pd.DataFrame | None  # the scores of each series; None if the data have no ids
    examples: Examples
    untrained: str | None  # name of what the model forecasts with before training, see `ForecastModel.warm_start_name`


# ---- before training


def print_setup(config: DictConfig, data: DataModule, model: ForecastModel, trainer: L.Trainer) -> None:
    slots = summarize_attention(model)
    equal = [f"{slot}: {one.type} {one.equals_softmax}" for slot, one in slots.items() if one.equals_softmax]
    windows = ", ".join(f"{count:,} {split}" for split, count in data.n_windows.items())
    if data.windows_per_epoch < data.n_windows["train"]:
        windows += f"; {data.windows_per_epoch:,} training windows per epoch"
    if data.eval_stride > 1:
        windows += f"; one in {data.eval_stride} windows in validation and test"
    is_ignored = data.n_targets > 1 and data.options.target in data.target_columns
    is_ignored = is_ignored and config.features == "M" and data.name in FILE_SOURCES
    alone = f"; {data.options.target} alone: features=MS" if is_ignored else ""
    source = f"from {plural(data.n_features, 'column')} (features={config.features})"
    lines = [
        f"data       {data.title}: {describe_panel(data.panel)}",
        f"forecast   {shorten(data.target_columns)} {source}{alone}",
        f"windows    {windows}; {data.seq_len} steps → {data.pred_len}",
        *describe_inputs(data),
    ]
    if slots:
        layers = ", ".join(f"{slot} {one}" for slot, one in slots.items())
        lines.append(f"attention  {config.model.attention.name}: {layers}")
    if equal:
        lines.append(
            f"note       these layers compute exact softmax attention, as attention=full does ({', '.join(equal)})"
        )
    lines.append(
        f"model      {config.model._target_.rsplit('.', 1)[-1]}, {sum(p.numel() for p in model.parameters()):,} "
        f"parameters; {trainer.world_size} × {trainer.strategy.root_device.type}, {config.trainer.precision}, "
        f"seed {config.seed}"
    )
    print(*lines, sep="\n")


def join_inputs(inputs: Iterable[str]) -> str:
    """Join the names of inputs into one line: `past of a, b; past and future of c; calendar`."""
    groups: dict[str, list[str]] = {}
    for text in inputs:
        kinds = ("past of", "past and future of", "static")
        kind = next((kind for kind in kinds if text.startswith(f"{kind} ")), text)
        groups.setdefault(kind, []).append(text[len(kind) + 1 :])
    return "; ".join(f"{kind} {shorten(columns, MAX_NAMED)}".strip() for kind, columns in groups.items())


def describe_inputs(data: DataModule) -> list[str]:
    """Describe the covariates, missing values, transforms and bounds."""
    panel, lines = data.panel, []
    covariates = {
        "past covariates": [name for name in data.feature_columns if name not in data.columns],
        "future covariates": panel.future_covariates,
        "static": list(map(str, panel.static.columns)),
    }
    described = {role: panel.describe_covariates(names) for role, names in covariates.items() if names}
    if listed := "; ".join(f"{role} {names}" for role, names in described.items()):
        lines.append(f"covariates {listed}")
    known = describe_known(panel.future_covariates, panel.as_of, data.scaled.scales.known_steps)
    if limited := sorted(set(known) - set(panel.future_covariates)):
        lines.append(f"known      {', '.join(limited)}")
    lines += describe_missing(panel, data.feature_columns, data.target_columns, data.options.fill)
    if words := data.target_scaler.domain.describe(data.target_columns):
        lines.append(f"values     {words}")
    return lines


# ---- files


def save_tables(run: RunReport) -> None:
    """Write the tables: errors by step, variable, window and series (if there are ids), inputs, example forecasts."""
    data, results = run.data, run.results
    variables = choose_evenly_spaced(data.n_targets, MAX_TABLED).tolist()
    tables = {
        "errors_by_step.csv": scores.tabulate_steps(results.errors, results.coverage_by_step),
        "errors_by_variable.csv": scores.tabulate_variables(
            data.target_columns, results.errors, results.coverage_by_variable
        ),
        "errors_by_window.parquet": scores.tabulate_windows(data, results),
        inputs.FILE: inputs.tabulate_run_inputs(data),
        "errors_by_series.parquet": run.by_series,
        "forecasts.parquet": run.examples.tabulate(list(data.target_columns), variables, data.pred_len),
    }
    for name, table in tables.items():
        if table is not None:
            with atomic_file(run.folder / name) as temporary:
                write = table.to_csv if name.endswith(".csv") else table.to_parquet
                write(temporary, index=False)


def save_pictures(run: RunReport) -> dict[str, Path]:
    """Draw the example forecasts, and the error along the horizon; return the paths of the figures."""
    data, results, examples = run.data, run.results, run.examples
    attention = run.metrics["attention"]
    rival, names = results.best_baseline, labels(attention)
    variables = choose_evenly_spaced(data.n_targets, MAX_PLOTTED).tolist()
    shown = f", {len(variables)} of {data.n_targets} variables" if len(variables) < data.n_targets else ""
    dates, mses = [data.panel.utc_offset.shown(dates) for dates in examples.dates], results.windows
    ids = examples.ids.get(ID_COLUMN, [""] * len(dates))
    titles = [
        f"{data.panel.ids.name} {name}, " * bool(name) + f"from {date[-data.pred_len]:%Y-%m-%d %H:%M}: "
        f"MSE {float(mses[MODEL][number, 0]):.3g} ({LABELS[rival]} {float(mses[rival][number, 0]):.3g})"
        for name, date, number in zip(ids, dates, examples.numbers, strict=True)
    ]
    drawn = {
        "forecasts": figures.forecast_figure(
            dates,
            [truth[:, variables] for truth in examples.truth],
            {names[name]: list(examples.forecasts[name][..., variables]) for name in (MODEL, rival)},
            [data.target_columns[v] for v in variables],
            data.pred_len,
            f"{data.title}: {data.pred_len} steps ahead, test windows{shown}",
            attention,
            titles,
            {level: (low[..., variables], high[..., variables]) for level, (low, high) in examples.bands.items()},
            data.panel.utc_offset.timezone,
        ),
        "error_by_step": figures.step_figure(
            {names[name]: results.errors[name].by_step()["mse"].numpy() for name in (MODEL, *reversed(BASELINES))},
            f"{data.title}: error along the horizon, {len(data.windows['test']):,} test windows",
            attention,
            data.season,
            name_step_ahead(data.panel),
            data.target_scaler,
            data.target_columns,
        ),
    }
    paths = {name: run.folder / f"{name}.png" for name in drawn}
    for name, figure in drawn.items():
        figures.save(figure, paths[name])
        signals.exit_if_received(" while it drew figures")
    return paths


def forecast_examples(forecaster: Forecaster, data: DataModule, results: Results) -> Examples:
    """Forecast a few test windows with the model and every baseline."""
    test = data.windows["test"]
    chosen = torch.from_numpy(choose_evenly_spaced(len(test), MAX_EXAMPLES)).to(test.device)
    batch = test.gather(chosen)
    output = compute_output(forecaster, batch)
    scaled = {MODEL: forecaster.point(output)}
    scaled |= {name: baseline(test, batch) for name, baseline in results.baselines.items()}
    shown = min(test.seq_len, max(test.pred_len, min(3 * test.pred_len, MAX_HISTORY)))
    origins, series = test.origins(chosen), test.series(chosen)
    rows = (origins.cpu()[:, None] + torch.arange(-shown, test.pred_len)).numpy()
    # of the panel, because scaled float32 values would lose the last digits
    values = data.panel.values[rows.ravel()].reshape(*rows.shape, -1)
    truth = values[..., [data.panel.columns.index(name) for name in data.target_columns]]

    def units(values: Tensor) -> np.ndarray:
        return data.target_scaler.inverse(data.target_scaler.clip(values.float(), series), series).cpu().numpy()

    bands = compute_intervals(forecaster, output)
    return Examples(
        chosen.tolist(),
        [data.panel.dates(r) for r in rows],
        list(truth),
        {name: units(prediction) for name, prediction in scaled.items()},
        {level: (units(low), units(high)) for level, (low, high) in bands.items()},
        {name: ids.tolist() for name, ids in id_columns(data.panel, series.cpu().numpy()).items()},
    )


def compute_intervals(forecaster: Forecaster, output: Tensor) -> dict[Level, tuple[Tensor, Tensor]]:
    """Return the scaled bounds of the intervals of the lowest level: trained quantiles, or else conformal ones.

    It is empty without levels, and with too few validation windows to calibrate on.
    """
    if not forecaster.levels:
        return {}
    level, calibration = min(forecaster.levels), forecaster.calibration
    if forecaster.quantiles is not None and not forecaster.is_untrained:
        probabilities, quantiles = forecaster.quantiles, output
    elif calibration is not None and calibration.supports(level):
        probabilities, quantiles = calibration.quantiles, calibration.around(forecaster.point(output))
    else:
        return {}
    low, high = (quantiles[..., probabilities.index(p)] for p in bounds(level))
    return {level: (low, high)}


# ---- after the test


def print_results(run: RunReport) -> None:
    """Print the test scores, the tested model, the cost of the run and its folder."""
    data, results, content = run.data, run.results, run.metrics
    name = name_tested(content["attention"], untrained=content["best_epoch"] == 0)
    scores.print_scores(f"test: {data.title}, {scores.which_windows(data, 'test')}", name, results, data)
    lines, horizons = [], data.windows["val"].count_horizons()
    if horizons < FEW_HORIZONS and data.n_windows["val"] and results.coverage_by_step:
        lines.append(
            f"intervals are rough: the validation rows hold {horizons:.1f} horizons; a larger validation part "
            "(data.split) has more"
        )
    if run.by_series is not None:
        lines += scores.describe_series(run.by_series, results.best_baseline)
    epoch, shrinkage = f"epoch {content['best_epoch']} of {content['epochs']}", content["shrinkage_weight"]
    if content["best_epoch"] == 0:
        no_quantiles = "; no quantiles were trained, so intervals are conformal"
        tested = describe_untrained(run.untrained) + no_quantiles * ("validation_quantile_loss" in content)
    else:
        correction = f"the {run.untrained} plus {shrinkage:.0%} of the correction of " * (shrinkage < FULL_WEIGHT)
        tested = f"tested: {correction}{epoch}, the best epoch on validation windows"
    lines.append(tested)
    for model in content["linear_models"].values():
        if line := NaiveShrinkage(**model["shrinkage"]).describe() if "shrinkage" in model else "":
            lines.append(f"linear model: {line}")
    lines.append(f"inputs: {join_inputs(content['inputs_used'])}")
    rate = content["windows_per_second"]  # NaN for a training of one step
    speed = "" if math.isnan(rate) else f"{rate:.0f} windows/s in training, "
    lines.append(
        f"{content['seconds']:.0f} s, {speed}{content['ms_per_window']:.3g} ms per window in the test, "
        f"{content['n_parameters']:,} parameters, {content['peak_memory_mb']:.0f} MiB peak memory"
    )
    console = Console(markup=False)
    for line in [*lines, f"saved in {run.folder}"]:
        console.print(line, soft_wrap=True)
