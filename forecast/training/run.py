"""A training run: train a forecaster, test it beside baselines, save the results, and refit it on all rows."""

from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig

from forecast.checkpoints.contents import completed_epochs, data_state, find_checkpoint, is_untrained
from forecast.checkpoints.file import load_checkpoint, load_newest, save_checkpoint
from forecast.data import DataModule
from forecast.data.panel import missing_shares, series_entry
from forecast.data.source import check_batch_size
from forecast.evaluation.baselines import FittedBaselines, describe_season
from forecast.evaluation.conformal import Calibration
from forecast.reports.scores import tabulate_series
from forecast.system import signals
from forecast.system.files import write_json
from forecast.system.formatting import plural
from forecast.system.machine import describe_machine
from forecast.system.memory import PeakMemory
from forecast.training import build, loggers, report
from forecast.training.callbacks import RankConsistency, RunTime
from forecast.training.checkpointing import Checkpointing, fit, open_run, set_shrinkage
from forecast.training.create_model import compile_where_possible, list_inputs, summarize_attention
from forecast.training.module import Forecaster, LightningData, count_flops, is_sharded, load_whole
from forecast.training.preparation import AUTO, check_trainer, filter_messages
from forecast.training.report import RunReport, forecast_examples

REFIT_STATE = "refit-last"  # name of the checkpoint from which an interrupted refit resumes


def train_on(config: DictConfig, data: DataModule, memory: PeakMemory, seconds: float) -> float:
    """Train, test and save one model; see `forecast.train`.

    Args:
        memory: its peak since the run began.
        seconds: seconds since the run began.
    """
    filter_messages()
    start, folder = open_run(config), Path(config.output_dir)
    run_time = RunTime(seconds, start.run_time)
    L.seed_everything(config.seed, workers=True, verbose=False)
    config, lines = build.resolve_settings(config, data, start.content)
    if data.options.transform == AUTO:
        data = data.with_transform(config.data.transform)
    if start.content:
        data = data.with_state(data_state(start.content))
    baselines = build.fit_baselines(data)
    forecaster = build.make_forecaster(config, data, baselines)
    trainer = build.make_trainer(
        config,
        run_time,
        RankConsistency(),
        logger=[instantiate(each, _convert_="all") for name, each in config.logger.items() if name != "mode"],
        num_sanity_val_steps=build.count_sanity_steps(forecaster.model) if start.mode == "new" else 0,
    )
    check_trainer(config, trainer)
    check_batch_size(data.batch_size, trainer.world_size)
    start.check(build.resolved_settings(config), data, forecaster)
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    if trainer.is_global_zero:
        start.copy_best_epoch(folder, build.resolved_settings(config), data)
        report.print_setup(config, data, forecaster.model, trainer)
        season = f"season     {describe_season(data, baselines.seasonal_naive_season)}"
        print(*lines, season, sep="\n")

    saved: RunReport | None = None
    metrics = folder / "metrics.json"
    with loggers.running(trainer.loggers) as lines_of_loggers:
        start.fit(trainer, forecaster, data)
        path, best = calibrate_and_test(config, trainer, forecaster, data, baselines)
        scores = forecaster.validation_scores
        if trainer.is_global_zero:
            facts = describe_run(config, trainer, forecaster, data, best, memory, run_time)
            saved = save_results(config, trainer, forecaster, data, baselines, path, best, facts)
    if saved is not None:
        write_json(metrics, saved.metrics)  # not before the loggers are closed: it marks the run as finished
    refitted = refit(config, data, baselines, path, best) if config.refit else None
    if saved is not None:
        if refitted is not None:
            write_json(metrics, {**saved.metrics, "refit": refitted})
        report.print_results(saved)
    loggers.print_lines(lines_of_loggers)
    return scores[forecaster.selecting_score]


def calibrate_and_test(
    config: DictConfig, trainer: L.Trainer, forecaster: Forecaster, data: DataModule, baselines: FittedBaselines
) -> tuple[Path, dict[str, Any]]:
    """Restore the best epoch, calibrate its intervals on the validation windows, then test it.

    Returns the tested checkpoint, and its content with the calibrations, the baselines and the test scores.
    """
    path = find_checkpoint(config.output_dir)
    content, datamodule = load_checkpoint(path), LightningData(data)
    forecaster.is_untrained = is_untrained(content)
    trainer.validate(forecaster, datamodule=datamodule, ckpt_path=path, weights_only=True, verbose=False)
    trainer.test(forecaster, datamodule=datamodule, verbose=False)
    assert forecaster.calibration is not None
    content["calibration"] = forecaster.calibration.state_dict()
    content["baselines"] = baselines.state_dict()
    content["baseline_calibrations"] = {
        name: calibration.state_dict() for name, calibration in forecaster.baseline_calibrations.items()
    }
    content["test"] = forecaster.results.content()
    # the checkpoint may be a copy of that of the run that is continued, with the settings of that run
    content["hyper_parameters"] = build.resolved_settings(config)
    return path, content


def save_results(
    config: DictConfig,
    trainer: L.Trainer,
    forecaster: Forecaster,
    data: DataModule,
    baselines: FittedBaselines,
    path: Path,
    best: dict[str, Any],
    facts: dict[str, Any],
) -> RunReport:
    """Write the tested checkpoint, tables and figures to the run folder, and log the final scores."""
    if is_sharded(forecaster.model):  # from here on this process works alone
        forecaster.model = load_whole(build.make_model(config, data), best)
    save_checkpoint(best, path)
    results = forecaster.results
    signals.exit_if_received(" after the test")
    window = data.windows["test"].gather(torch.zeros(1, dtype=torch.long, device=data.windows["test"].device))
    metrics = {
        **results.content(),
        "n_windows": data.n_windows,
        "mflops_per_window": count_flops(forecaster, window) / 1e6,
        **facts,
        "season": baselines.seasonal_naive_season,
        "linear_models": {} if config.checkpoint else baselines.describe_choices(),  # its weights were loaded
    }
    saved = RunReport(
        Path(config.output_dir),
        data,
        metrics,
        results,
        by_series=tabulate_series(data, results),
        examples=forecast_examples(forecaster, data, results),
        untrained=forecaster.model.warm_start_name,
    )
    images = report.save_pictures(saved) if config.pictures else {}
    report.save_tables(saved)
    loggers.log_results(trainer.loggers, metrics, results, images, trainer.global_step)
    return saved


def describe_run(
    config: DictConfig,
    trainer: L.Trainer,
    forecaster: Forecaster,
    data: DataModule,
    best: dict[str, Any],
    memory: PeakMemory,
    run_time: RunTime,
) -> dict[str, Any]:
    """Return the facts of a run that metrics.json holds beside the scores: cost, settings, epochs."""
    too_short = {  # by split, the ids of the series without a window
        split: [str(name) for name, own in zip(data.panel.ids, windows.starts, strict=True) if not own]
        for split, windows in data.windows.items()
    }
    return {
        "n_parameters": sum(p.numel() for p in forecaster.model.parameters()),
        "seconds": run_time.seconds,
        "seconds_before_resume": run_time.seconds_before,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "windows_per_second": run_time.windows_per_second,
        "machine": {
            **describe_machine(trainer.strategy.root_device.type),
            # other processes of the run would count
            "used_by_others": run_time.others.share() if trainer.world_size == 1 else None,
        },
        "ms_per_window": 1000 * median(forecaster.seconds_per_window or [float("nan")]),
        "peak_memory_mb": memory.megabytes(),
        "peak_memory_of": "device" if memory.is_of_device else "process",
        "attention": config.model.attention.name,
        "attention_slots": {name: slot._asdict() for name, slot in summarize_attention(forecaster.model).items()},
        "data": config.data.name,
        "eval_stride": data.eval_stride,
        **series_entry(data.panel, too_short, "series_without_windows"),
        "missing": missing_shares(data.panel, data.feature_columns, data.target_columns),
        **{f"validation_{name}": score for name, score in forecaster.validation_scores.items()},
        **{key: config[key] for key in ("seq_len", "label_len", "pred_len", "features", "seed")},
        "epochs": trainer.current_epoch,
        "best_epoch": completed_epochs(best),
        "inputs_used": list_inputs(forecaster.model, data, untrained=is_untrained(best)),
        "shrinkage_weight": 0.0 if is_untrained(best) else forecaster.model.shrinkage_weight,
        "precision": config.trainer.precision,
        "transforms": dict(zip(data.target_columns, data.target_scaler.domain.transforms, strict=True)),
    }


# ---- refit=full


def refit(
    config: DictConfig, data: DataModule, fitted: FittedBaselines, best: Path, tested: dict[str, Any]
) -> dict[str, Any]:
    """Train from the start on all rows, for as many epochs as the tested model's best took; save `refit.ckpt`.

    The scaler and the linear baseline are fitted on all rows too. Scaled errors stay in the units of the tested model.
    No windows are left to test or to calibrate this model. Its intervals are those of the tested model, equally wide
    in original units (with many series, on the scale of each series).

    Returns what metrics.json says of the refit.
    """
    signals.exit_if_received(" before the refit")
    whole, epochs = data.with_all_rows_in_training(), completed_epochs(tested)
    L.seed_everything(config.seed, workers=True, verbose=False)
    forecaster = build.make_forecaster(config, whole, fitted, chosen_on=data)
    trainer = build.make_trainer(
        config,
        Checkpointing(
            str(best.parent), name=REFIT_STATE, keep_best=False,
            every_minutes=config.callbacks.checkpoint.every_minutes,
        ),
        names=("progress", "finite", "average", "random_state"),
        logger=False,
        limit_val_batches=0,
        max_epochs=epochs,  # fewer than those of the schedule; none if the best model was the one before the first step
    )  # fmt: skip
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    facts = describe_refit(whole, best, tested)
    if trainer.is_global_zero:
        untrained = f"of the {forecaster.model.warm_start_name} alone, as it was tested"
        how = plural(epochs, "epoch") if epochs else untrained
        print(f"refit      on all {facts['rows']:,} rows, to {facts['last_date']}, {how}; it is not tested")
    newest = load_newest(best.parent.parent, REFIT_STATE) if config.resume else None
    path = newest and newest[0]
    del newest  # as large as the model and its optimizer
    fit(trainer, forecaster, whole, path)
    set_shrinkage(forecaster, facts["shrinkage_weight"])
    forecaster.added = {
        **rescale_intervals(tested, data, whole),
        "refitted": facts,
        "baselines": fitted.refit(whole).state_dict(),
        "test": tested["test"],
    }
    trainer.save_checkpoint(best.with_name("refit.ckpt"), weights_only=True)
    if trainer.is_global_zero:
        for name in (REFIT_STATE, f"{REFIT_STATE}-1"):
            best.with_name(f"{name}.ckpt").unlink(missing_ok=True)
    return facts


def rescale_intervals(tested: dict[str, Any], data: DataModule, whole: DataModule) -> dict[str, Any]:
    """The calibrations in a tested checkpoint, with the widths that they have in original units, for a refit."""

    def rescale(state: dict[str, Any]) -> dict[str, Any]:
        calibration = Calibration.from_state_dict(state)
        return calibration.rescaled(data.target_scaler, whole.target_scaler).state_dict()

    of_baselines = {name: rescale(state) for name, state in tested["baseline_calibrations"].items()}
    return {"calibration": rescale(tested["calibration"]), "baseline_calibrations": of_baselines}


def describe_refit(whole: DataModule, best: Path, tested: dict[str, Any]) -> dict[str, Any]:
    """Return the refit's entry in metrics.json and in its checkpoint."""
    return {
        "checkpoint": "checkpoints/refit.ckpt",
        "epochs": completed_epochs(tested),
        "shrinkage_weight": float(tested["state_dict"].get("model.shrinkage", 1)),  # a model may have none
        "rows": whole.panel.n_rows,
        "first_date": str(whole.panel.first_date),
        "last_date": str(whole.panel.last_date),
        "scores_are_of": f"checkpoints/{best.name}",
    }
