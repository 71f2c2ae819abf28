"""Train a forecaster, test it beside simple baselines, save everything: `python -m forecast.train --help`."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast import processes
from forecast.cli import main
from forecast.errors import ConfigError


def train(config: DictConfig, data: Any = None) -> float:
    """One run from configuration to report. Returns the tested model's validation MSE, which a sweeper minimises.

    `data`, a data module that is set up, takes the place of the configuration's.
    """
    # Here and not above, so that --help and --cfg answer without loading torch.
    import lightning as L
    from hydra.utils import instantiate
    from torch.distributed.fsdp import FSDPModule

    from forecast import loggers, preemption, quiet, report, scores
    from forecast.agreement import SameEverywhere, check_table
    from forecast.baselines import FittedBaselines
    from forecast.build import before_training, make_data, make_forecaster, make_trainer
    from forecast.callbacks import RunTime
    from forecast.checkpoint import (
        add_to_checkpoint,
        check_goes_on,
        epochs_done,
        find_checkpoint,
        is_untrained,
        load_checkpoint,
        same_windows,
        seconds_taken,
    )
    from forecast.compiler import compile_where_possible
    from forecast.files import write_json
    from forecast.hardware import settle
    from forecast.keeping import take_over_best
    from forecast.refit import check_refit, refit
    from forecast.resources import PeakMemory, keep_freed_memory
    from forecast.sharding import whole

    quiet.lightning()
    check_refit(config)
    keep_freed_memory()
    memory, folder = PeakMemory(), Path(config.output_dir)
    checkpoint, saved = start_from(config, folder)
    is_same_run = checkpoint is not None and checkpoint.parent.parent == folder
    if checkpoint is not None and saved is not None and not is_same_run:
        check_data_typed(config, checkpoint, saved)
    run_time = RunTime(seconds_taken(saved) if saved is not None and is_same_run else 0.0)
    settle(config, saved)
    settings: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    L.seed_everything(config.seed, workers=True, verbose=False)

    data = data if data is not None else make_data(config)
    fitted = FittedBaselines.fit(data)
    forecaster = make_forecaster(config, data, fitted)
    model = forecaster.model
    callbacks = instantiate(config.callbacks)
    trainer = make_trainer(
        config,
        [*callbacks.values(), run_time, SameEverywhere()],
        logger=loggers.make(config.logger),
        num_sanity_val_steps=before_training(model) if checkpoint is None else 0,
    )
    check_trainer(config, trainer)
    if config.compile:
        compile_where_possible(model, trainer.strategy.root_device)
    is_trained = False
    if checkpoint is not None and saved is not None:
        check_goes_on(checkpoint, saved, settings, data.state_dict(), in_place=is_same_run)
        if is_same_run:
            check_table(checkpoint, saved, data)
        is_trained = is_same_run and saved["callbacks"]["KeepCheckpoints"]["is_finished"]
        if is_trained:  # the test is what is missing
            trainer.fit_loop.load_state_dict(saved["loops"]["fit_loop"])
        elif trainer.is_global_zero and not is_same_run:
            taken = same_windows(saved, settings, data.state_dict()) and take_over_best(checkpoint, folder)
            print(
                f"going on   from {checkpoint}"
                + ("" if taken else "; the best epoch is one of those to come")
            )
        del saved  # as large as the model and its optimizer
    if trainer.is_global_zero:
        report.introduce(config, data, model, trainer)

    with loggers.running(trainer.loggers):
        if not is_trained:
            with preemption.deferred():
                trainer.fit(forecaster, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        best = find_checkpoint(folder)
        kept = load_checkpoint(best)
        best_epoch, forecaster.is_untrained = epochs_done(kept), is_untrained(kept)
        del kept
        # at its best epoch: calibrate the intervals, then test
        trainer.validate(forecaster, datamodule=data, ckpt_path=best, weights_only=True, verbose=False)
        validation_mse = forecaster.errors.scores()["mse"]
        trainer.test(forecaster, datamodule=data, verbose=False)
        if trainer.is_global_zero:
            assert forecaster.calibration is not None
            if isinstance(model, FSDPModule):
                forecaster.model = whole(make_forecaster(config, data, fitted).model, best)
            calibration = forecaster.calibration.state_dict()
            # its settings too: it may be another run's, which this one took over
            add_to_checkpoint(
                best, calibration=calibration, baselines=fitted.state_dict(), hyper_parameters=settings
            )
            measured = scores.measure(forecaster, data, fitted)
            facts = {
                "n_parameters": sum(p.numel() for p in model.parameters()),
                "seconds": run_time.seconds,
                "windows_per_second": callbacks.throughput.windows_per_second,
                "ms_per_window": callbacks.throughput.ms_per_window,
                "peak_memory_mb": memory.megabytes(),
                "attention": config.model.attention.name,
                "data": config.data.name,
                "eval_stride": data.eval_stride,
                "validation_mse": validation_mse,
                **{key: config[key] for key in ("seq_len", "label_len", "pred_len", "features", "seed")},
                "epochs": trainer.current_epoch,
                "best_epoch": best_epoch,
                "share": float(getattr(model, "share", 1)),
                "precision": config.trainer.precision,
            }
            content = report.metrics(measured, data, facts)
            shown = report.examples(forecaster, data, measured)
            images = report.pictures(folder, forecaster, data, measured, shown)
            loggers.log_results(trainer.loggers, content, measured, images, trainer.global_step)
            report.save(folder, measured, data, shown)
    if trainer.is_global_zero:
        write_json(folder / "metrics.json", content)  # last: the run is finished but for a refit
    if config.refit:
        facts = refit(config, data, fitted, best)
        if trainer.is_global_zero:
            write_json(folder / "metrics.json", {**content, "refit": facts})
    if trainer.is_global_zero:
        report.show(content, measured, data, folder)
    return validation_mse


def start_from(config: DictConfig, folder: Path) -> tuple[Path, dict[str, Any]] | tuple[None, None]:
    """The checkpoint to go on from, and its content: this folder's newest (`resume=auto`), or the one named."""
    from forecast.checkpoint import find_checkpoint, load_checkpoint, newest_state

    if config.resume not in (None, "auto"):
        raise ConfigError(
            f"resume={config.resume}: only resume=auto is known; checkpoint=FILE names a checkpoint"
        )
    if config.resume == "auto" and (state := newest_state(folder)) is not None:
        return state
    if config.checkpoint:
        named = find_checkpoint(config.checkpoint, prefer="last")
        return named, load_checkpoint(named)
    return None, None


def check_data_typed(config: DictConfig, checkpoint: Path, saved: dict[str, Any]) -> None:
    """Refuse a command that leaves out which data the checkpoint was trained on: it would go on with the default's."""
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return
    typed = {text.lstrip("+~").split("=")[0] for text in HydraConfig.get().overrides.task}
    data, name = saved["hyper_parameters"]["data"], config.data.name
    if data["name"] != name and not typed & {"data", "data.name", "data.path", "experiment"}:
        path = f" ({data['path']})" if data.get("path") else ""
        raise ConfigError(
            f"{checkpoint}: it was trained on {data['name']}{path}, and this run would read {name}: type that run's "
            "settings again (its overrides.yaml), data= among them"
        )


PARTIAL = (
    "limit_val_batches", "limit_test_batches", "val_check_interval", "check_val_every_n_epoch", "max_steps",
    "overfit_batches", "fast_dev_run",
)  # fmt: skip
"""Lightning's ways to validate or test on a part or not, which scores, intervals and the best epoch would be of."""


OWN_PLACES = {"checkpoint.dirpath": "checkpoints", "epochs.path": "metrics.csv"}
"""Callbacks' places, where tests and resumed runs look for them in the run's folder."""
MONITORED = ("val/mse", "val/mae")


def check_trainer(config: DictConfig, trainer: Any) -> None:
    """Refuse what Lightning would take and not do, before it starts more processes."""
    from lightning.pytorch.accelerators import CPUAccelerator

    from forecast.build import check_callbacks

    check_callbacks(config, "checkpoint", "throughput")
    for key, name in OWN_PLACES.items():
        place = OmegaConf.select(config.callbacks, key)
        if place is not None and Path(place) != Path(config.output_dir) / name:
            raise ConfigError(
                f"callbacks.{key}={place}: a run keeps it in its own folder: output_root=FOLDER moves all of it"
            )
    for key in ("callbacks.early_stopping.monitor", "schedule.monitor"):
        monitor = OmegaConf.select(config, key)
        if monitor is not None and monitor not in MONITORED:
            raise ConfigError(f"{key}={monitor} is not one of {', '.join(MONITORED)}")
    for key in PARTIAL:
        if key in config.trainer:
            raise ConfigError(
                f"trainer.{key}: every epoch is validated once, on a whole split; data.eval_stride=24 thins it out"
            )
    epochs, precision, batch_size = (
        config.trainer.max_epochs,
        config.trainer.precision,
        config.data.batch_size,
    )
    if type(epochs) is not int or epochs < 1:
        raise ConfigError(f"trainer.max_epochs={epochs} must be a whole number of at least 1")
    if str(precision) in ("bf16-true", "16-true"):
        raise ConfigError(
            f"trainer.precision={precision}: data and the linear map stay float32; use {precision[:-4]}mixed"
        )
    if str(precision).startswith("16") and isinstance(trainer.accelerator, CPUAccelerator):
        raise ConfigError(f"trainer.precision={precision} needs a GPU; on the CPU use bf16-mixed or 32-true")
    check_processes(trainer)
    if batch_size % trainer.world_size:
        raise ConfigError(
            f"data.batch_size={batch_size} must divide by the number of processes, {trainer.world_size}"
        )


def check_processes(trainer: Any) -> None:
    """Refuse a trainer that leaves processes alone which a launcher started, or waits for ones that nobody starts."""
    devices, nodes, launcher = trainer.num_devices, trainer.num_nodes, processes.launcher()
    if launcher is not None and processes.count() != devices * nodes:
        raise ConfigError(
            f"{launcher} started {processes.count()} processes, and trainer.devices={devices} on "
            f"trainer.num_nodes={nodes} make {devices * nodes}: choose trainer=ddp, ddp_cpu or fsdp and leave both "
            f"out, or have {launcher} start {devices * nodes}"
        )
    if nodes > 1 and launcher is None:
        raise ConfigError(
            f"trainer.num_nodes={nodes}: start the processes of every machine with torchrun or srun (docs/scaling.md)"
        )


if __name__ == "__main__":
    main("train", train)
