"""Times of trained models, measured again one after another, for `forecast.compare retime=true`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from torch import Tensor

from forecast.checkpoints.settings import TRAINING_TARGETS, check_settings
from forecast.data.source import choose_batch_size
from forecast.inference.model import BATCH_SIZE, TrainedModel, load_tested
from forecast.reports.compare.run_folders import FinishedRun
from forecast.reports.compare.task import Task
from forecast.system.memory import keep_freed_memory
from forecast.system.progress import track
from forecast.tools.benchmark.measurement import Work, describe_hardware, time_in_turn
from forecast.training.hardware import computing_in, has_gpu, keep_precision
from forecast.training.losses import make_loss

REPEATS = 10


def retime(tasks: Sequence[Task]) -> dict[Path, dict[str, Any]]:
    """Measure the inference and the training step of every run again, on random windows, in this process.

    The first runs of all variants of a task are timed in turn, then the second ones, and so on: a slower machine slows
    all variants. Networks are not compiled.

    Returns:
        By run folder, the times in the form of `run_times.TIMES_FILE`.

    Raises:
        CheckpointError: a run has no checkpoint, or it cannot be loaded.
    """
    keep_freed_memory()
    session = datetime.now(UTC).isoformat()
    groups = [
        [run for run in group if run is not None]
        for task in tasks
        for group in zip_longest(*(entry.runs for entry in task.unmerged_variants))
    ]
    found = {}
    for group in track(groups, "Timing"):
        for run, times in zip(group, measure_in_turn(group), strict=True):
            found[run.folder] = {"session": session, **times}
    return found


def measure_in_turn(runs: Sequence[FinishedRun]) -> Iterator[dict[str, Any]]:
    """Yield the times of each run, with the device and the number of threads that they depend on."""
    models = [load_tested(run.folder) for run in runs]
    on_gpu = all(has_gpu(model.config["trainer"]["accelerator"]) for model in models)
    device = torch.device("cuda" if on_gpu else "cpu")
    inference = time_in_turn([make_inference(model, device) for model in models], REPEATS)
    training = time_in_turn([make_training_step(model, device) for model in models], REPEATS)
    hardware = describe_hardware(device.type)
    for model, forecast, step in zip(models, inference, training, strict=True):
        yield {
            "device": hardware["device"],
            "threads": hardware["threads"],
            "ms_per_window": 1000 * forecast.median / BATCH_SIZE,
            "windows_per_second": count_training_windows(model) / step.median,
        }


def make_inference(model: TrainedModel, device: torch.device) -> Work:
    """Return the forecast of a batch of random windows, in the precision of training."""
    precision = keep_precision(model.config["trainer"]["precision"])
    with computing_in(precision, device) as dtype:
        model.network.to(device, dtype)
        inputs = draw_inputs(model, BATCH_SIZE, device)

    def infer() -> None:
        with torch.inference_mode(), computing_in(precision, device):
            model.forecast(*inputs)

    return infer


def make_training_step(model: TrainedModel, device: torch.device) -> Work:
    """Return a training step on a batch of random windows: forecast, loss, gradient, optimizer."""
    settings, precision = model.config["optimizer"], keep_precision(model.config["trainer"]["precision"])
    check_settings(model.path, settings, TRAINING_TARGETS)
    network = model.network.train().requires_grad_(True)
    optimizer = instantiate(settings)(network.parameters())
    loss = make_loss(model.loss, model.quantiles)
    with computing_in(precision, device):
        inputs = draw_inputs(model, count_training_windows(model), device)
        horizon = (len(inputs[0]), model.config["pred_len"], len(model.target_columns))
        target = torch.randn(horizon, device=device)

    def step() -> None:
        optimizer.zero_grad()
        with computing_in(precision, device):
            value = loss(model.forecast(*inputs), target)
        value.backward()
        optimizer.step()

    return step


def count_training_windows(model: TrainedModel) -> int:
    """Return the windows of a training batch."""
    data = model.config["data"]
    return choose_batch_size(data["batch_size"], bool(data.get("future_covariates")))


def draw_inputs(model: TrainedModel, windows: int, device: torch.device) -> list[Tensor]:
    """Draw past values, and past and future step features; see `TrainedModel.forecast`. The values do not matter."""
    before, after = model.config["seq_len"], model.config["pred_len"]
    n_features, n_time = len(model.feature_columns), model.data_state["n_time_features"]
    shapes = (windows, before, n_features), (windows, before, n_time), (windows, after, n_time)
    return [torch.rand(shape, device=device) for shape in shapes]
