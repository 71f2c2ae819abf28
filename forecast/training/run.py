"""A training run: train a forecaster, test it beside baselines, save the results."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lightning as L
from omegaconf import DictConfig

from forecast.checkpoints.contents import completed_epochs, is_untrained
from forecast.checkpoints.file import load_checkpoint, save_checkpoint
from forecast.checkpoints.settings import find_checkpoint
from forecast.data import DataModule
from forecast.data.panel import missing_shares, series_entry
from forecast.evaluation.baselines import FittedBaselines, describe_season
from forecast.reports.scores import tabulate_series
from forecast.system import signals
from forecast.system.memory import PeakMemory
from forecast.training import loggers, report
from forecast.training.auto_settings import resolve_budget, resolve_transform
from forecast.training.build import (
    count_sanity_steps,
    make_forecaster,
    make_model,
    make_trainer,
    resolved_settings,
)
from forecast.training.callbacks import RunTime, Throughput, find_callback
from forecast.training.checkpointing import RunStart, open_run, preload_checkpoint
from forecast.training.create_model import summarize_attention
from forecast.training.hardware import compile_where_possible, resolve_auto
from forecast.training.inputs import list_inputs
from forecast.training.module import Forecaster, LightningData
from forecast.training.preparation import check_trainer, filter_messages
from forecast.training.processes import RankConsistency, is_sharded, load_whole
from forecast.training.refit import refit
from forecast.training.report import RunReport, forecast_examples


def train_on(config: DictConfig, data: DataModule, memory: PeakMemory, seconds: float) -> float:
    """Train, test and save one model; see `forecast.train`.

    Args:
        config: the composed configuration. Values `auto` are replaced in place.
        data: a data module whose rows are read.
        memory: its peak since the run began.
        seconds: seconds since the run began.

    Returns:
        The validation score of the tested model: the quantile loss with loss=quantile, otherwise the MSE. A search
        minimises it.
    """
    filter_messages()
    start, folder = open_run(config), Path(config.output_dir)
    run_time = RunTime(seconds, before=start.seconds)
    resolve_auto(config, start.content)
    L.seed_everything(config.seed, workers=True, verbose=False)

    transforms = resolve_transform(config, data, start.content)
    baselines = fit_baselines(data)
    budget = resolve_budget(config, data, baselines, start)
    forecaster = make_forecaster(config, data, baselines)
    trainer = make_run_trainer(config, forecaster, start, run_time)
    check_trainer(config, trainer, data)
    start.check(resolved_settings(config), data, forecaster)
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    if trainer.is_global_zero:
        start.copy_best_epoch(folder, resolved_settings(config), data)
        report.print_setup(config, data, forecaster.model, trainer)
        for line in (budget, None if transforms is None else transforms.describe()):
            if line is not None:
                print(line)
        print(f"season     {describe_season(data, baselines.seasonal_naive_season)}")

    saved: RunReport | None = None
    with loggers.running(trainer.loggers):
        start.fit(trainer, forecaster, data)
        best = calibrate_and_test(config, trainer, forecaster, data, baselines)
        if trainer.is_global_zero:
            saved = save_results(config, trainer, forecaster, data, baselines, best, memory)
    if saved is not None:
        saved.write_metrics()  # not before the loggers are closed: it marks the run as finished
    refitted = refit(config, data, baselines, best.path, best.content) if config.refit else None
    if saved is not None:
        saved.write_metrics(refitted)
        report.print_results(saved)
    return best.validation_scores[forecaster.selecting_score]


@dataclass(frozen=True)
class TestedCheckpoint:
    """The tested checkpoint: the best epoch's weights, with calibration and baselines in its content."""

    path: Path
    content: dict[str, Any]
    validation_scores: dict[str, float]


def fit_baselines(data: DataModule) -> FittedBaselines:
    """Scale the data and cut them into windows, and fit the baselines on the training windows."""
    data.setup()
    signals.exit_if_received(" before it fitted baselines")
    baselines = FittedBaselines.fit(data)
    signals.exit_if_received(" before training started")
    return baselines


def make_run_trainer(
    config: DictConfig, forecaster: Forecaster, start: RunStart, run_time: RunTime
) -> L.Trainer:
    """Create the trainer of a run, with all callbacks and loggers."""
    return make_trainer(
        config,
        run_time,
        RankConsistency(),
        logger=loggers.make_loggers(config.logger),
        num_sanity_val_steps=count_sanity_steps(forecaster.model) if start.mode == "new" else 0,
    )


def calibrate_and_test(
    config: DictConfig,
    trainer: L.Trainer,
    forecaster: Forecaster,
    data: DataModule,
    baselines: FittedBaselines,
) -> TestedCheckpoint:
    """Restore the best epoch, calibrate its intervals on the validation windows, then test it."""
    path = find_checkpoint(config.output_dir)
    content = load_checkpoint(path)
    forecaster.is_untrained = is_untrained(content)
    # the data module has the state that the checkpoint has of it, and need not scale its panel again
    to_restore = {key: value for key, value in content.items() if key != LightningData.__qualname__}
    # the speed of training is that of all epochs, not of those up to the best one
    to_restore["callbacks"] = {
        name: state for name, state in content["callbacks"].items() if name != Throughput.__qualname__
    }
    preload_checkpoint(trainer, path, to_restore)
    datamodule = LightningData(data)
    trainer.validate(forecaster, datamodule=datamodule, ckpt_path=path, weights_only=True, verbose=False)
    validation_scores = forecaster.validation_scores
    trainer.test(forecaster, datamodule=datamodule, verbose=False)
    assert forecaster.calibration is not None
    content["calibration"] = forecaster.calibration.state_dict()
    content["baselines"] = baselines.state_dict()
    content["baseline_calibrations"] = {
        name: calibration.state_dict() for name, calibration in forecaster.baseline_calibrations.items()
    }
    content["test"] = forecaster.results.content()
    # the checkpoint may be a copy of that of the run that is continued, with the settings of that run
    content["hyper_parameters"] = resolved_settings(config)
    return TestedCheckpoint(path, content, validation_scores)


def save_results(
    config: DictConfig,
    trainer: L.Trainer,
    forecaster: Forecaster,
    data: DataModule,
    baselines: FittedBaselines,
    best: TestedCheckpoint,
    memory: PeakMemory,
) -> RunReport:
    """Write the tested checkpoint, tables and figures to the run folder, and log the final scores."""
    if is_sharded(forecaster.model):  # from here on this process works alone
        forecaster.model = load_whole(make_model(config, data), best.content)
    save_checkpoint(best.content, best.path)
    results = forecaster.results
    signals.exit_if_received(" after the test")
    facts = {
        **describe_run(config, trainer, forecaster, data, best, memory),
        "season": baselines.seasonal_naive_season,
        "linear_models": {} if config.checkpoint else baselines.describe_choices(),  # its weights were loaded
    }
    metrics = {**results.content(), "n_windows": data.n_windows, **facts}
    examples, by_series = forecast_examples(forecaster, data, results), tabulate_series(data, results)
    untrained = forecaster.model.warm_start_name
    saved = RunReport(Path(config.output_dir), data, metrics, results, by_series, examples, untrained)
    images = report.save_pictures(saved) if config.pictures else {}
    errors_by_window = report.save_tables(saved)
    loggers.log_results(trainer.loggers, metrics, results, images, errors_by_window, trainer.global_step)
    return saved


def list_without_windows(data: DataModule) -> dict[str, list[str]]:
    """By split, the ids of the series that are too short for a window in it."""
    return {
        split: [str(name) for name, own in zip(data.panel.ids, windows.starts, strict=True) if not own]
        for split, windows in data.windows.items()
    }


def describe_run(
    config: DictConfig,
    trainer: L.Trainer,
    forecaster: Forecaster,
    data: DataModule,
    best: TestedCheckpoint,
    memory: PeakMemory,
) -> dict[str, Any]:
    """Return the facts of a run that metrics.json holds beside the scores: cost, settings, epochs."""
    throughput, run_time = find_callback(trainer, Throughput), find_callback(trainer, RunTime)
    return {
        "n_parameters": sum(p.numel() for p in forecaster.model.parameters()),
        "seconds": run_time.seconds,
        "seconds_before_resume": run_time.before,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "windows_per_second": throughput.windows_per_second,
        "ms_per_window": throughput.ms_per_window,
        "peak_memory_mb": memory.megabytes(),
        "peak_memory_of": "device" if memory.is_of_device else "process",
        "attention": config.model.attention.name,
        "attention_slots": {
            name: asdict(slot) for name, slot in summarize_attention(forecaster.model).items()
        },
        "data": config.data.name,
        "eval_stride": data.eval_stride,
        **series_entry(data.panel, list_without_windows(data), "series_without_windows"),
        "missing": missing_shares(data.panel, data.feature_columns, data.target_columns),
        **{f"validation_{name}": score for name, score in best.validation_scores.items()},
        **{key: config[key] for key in ("seq_len", "label_len", "pred_len", "features", "seed")},
        "epochs": trainer.current_epoch,
        "best_epoch": completed_epochs(best.content),
        "inputs_used": list_inputs(forecaster.model, data, untrained=is_untrained(best.content)),
        "shrinkage_weight": 0.0 if is_untrained(best.content) else forecaster.model.shrinkage_weight,
        "precision": config.trainer.precision,
        "transforms": dict(zip(data.target_columns, data.target_scaler.domain.transforms, strict=True)),
    }
