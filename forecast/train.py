"""Train a forecaster, test it beside simple baselines, save everything: `python -m forecast.train --help`."""

import logging
import time
import warnings
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.cli import main
from forecast.errors import ConfigError


def train(config: DictConfig) -> float:
    """One run from configuration to report. Returns the best validation MSE, which a sweeper minimises."""
    # Here and not above, so that --help and --cfg answer without loading torch.
    import lightning as L
    from hydra.utils import instantiate

    from forecast import loggers, report
    from forecast.baselines import new_errors
    from forecast.checkpoint import check_goes_on, find_checkpoint, load_checkpoint
    from forecast.compiler import compile_where_possible
    from forecast.forecaster import Forecaster
    from forecast.hardware import settle
    from forecast.resources import PeakMemory, keep_freed_memory

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for known in (
        ".*LeafSpec.*",  # Lightning's use of torch
        ".*smaller than the logging interval.*",  # curves are logged by epoch
        ".*dirpath has changed.*",  # a run that goes on from another's checkpoint keeps its own
        ".*sync_dist=True.*",  # scores have been summed over the processes before they are logged
    ):
        warnings.filterwarnings("ignore", message=known)
    keep_freed_memory()
    started, memory = time.perf_counter(), PeakMemory()
    folder = Path(config.output_dir)
    checkpoint = start_from(config, folder)
    saved = load_checkpoint(checkpoint) if checkpoint is not None else None
    settle(config, saved)
    settings: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    L.seed_everything(config.seed, workers=True, verbose=False)

    data = instantiate(config.data)
    data.prepare_data()
    data.setup()
    model = instantiate(config.model)(
        n_features=data.n_features, n_targets=data.n_targets, n_time_features=data.n_time_features
    )
    forecaster = Forecaster(
        model,
        loss=config.loss,
        optimizer=instantiate(config.optimizer),
        schedule=instantiate(config.schedule),
        new_errors=lambda: new_errors(data),
        config=settings,
    )
    callbacks = instantiate(config.callbacks)
    trainer: L.Trainer = instantiate(
        config.trainer, callbacks=list(callbacks.values()), logger=loggers.make(config.logger)
    )
    check_trainer(config, trainer)
    if config.compile:
        compile_where_possible(model, trainer.strategy.root_device)
    if checkpoint is not None and saved is not None:
        columns = {"feature_columns": [*data.feature_columns], "target_columns": [*data.target_columns]}
        check_goes_on(checkpoint, saved, settings, columns)
        del saved  # as large as the model and its optimizer
    if trainer.is_global_zero:
        report.introduce(config, data, model, trainer)

    with loggers.running(trainer.loggers):
        trainer.fit(forecaster, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        best = find_checkpoint(folder)
        trainer.test(forecaster, datamodule=data, ckpt_path=best, weights_only=True, verbose=False)
        if trainer.is_global_zero:
            measured = report.measure(forecaster, data)
            facts = {
                "n_parameters": sum(p.numel() for p in model.parameters()),
                "seconds": time.perf_counter() - started,
                "windows_per_second": callbacks.throughput.windows_per_second,
                "peak_memory_mb": memory.megabytes(),
                "attention": config.model.attention.name,
                "data": config.data.name,
                **{key: config[key] for key in ("seq_len", "label_len", "pred_len", "features", "seed")},
                "epochs": trainer.current_epoch,
                "precision": config.trainer.precision,
            }
            content = report.metrics(measured, data, facts)
            images = report.pictures(folder, forecaster, data, measured)
            loggers.log_results(trainer.loggers, content, measured, images, trainer.global_step)
            report.save(folder, content, measured, data)
            report.show(content, measured, folder)
    return float(callbacks.checkpoint.best_model_score)


def start_from(config: DictConfig, folder: Path) -> Path | None:
    """The checkpoint to go on from: this folder's last one (`resume=auto`), or the one that was named."""
    from forecast.checkpoint import find_checkpoint

    if config.resume not in (None, "auto"):
        raise ConfigError(
            f"resume={config.resume}: only resume=auto is known; checkpoint=FILE names a checkpoint"
        )
    if config.resume == "auto" and (folder / "checkpoints" / "last.ckpt").exists():
        return find_checkpoint(folder, prefer="last")
    return find_checkpoint(config.checkpoint, prefer="last") if config.checkpoint else None


def check_trainer(config: DictConfig, trainer: Any) -> None:
    """Refuse what Lightning would take and not do, before it starts more processes."""
    from lightning.pytorch.accelerators import CPUAccelerator

    epochs, precision, batch_size = (
        config.trainer.max_epochs,
        config.trainer.precision,
        config.data.batch_size,
    )
    if type(epochs) is not int or epochs < 1:
        raise ConfigError(f"trainer.max_epochs={epochs} must be a whole number of at least 1")
    if str(precision).startswith("16") and isinstance(trainer.accelerator, CPUAccelerator):
        raise ConfigError(f"trainer.precision={precision} needs a GPU; on the CPU use bf16-mixed or 32-true")
    if batch_size % trainer.world_size:
        raise ConfigError(
            f"data.batch_size={batch_size} must divide by the number of processes, {trainer.world_size}"
        )


if __name__ == "__main__":
    main("train", train)
