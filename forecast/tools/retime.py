"""Times of trained models, measured again one after another, for `forecast.compare retime=true`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from forecast.inference.model import BATCH_SIZE, TrainedModel, load_tested
from forecast.reports.compare.run_folders import FinishedRun
from forecast.reports.compare.task import Task
from forecast.system.memory import keep_freed_memory
from forecast.system.progress import track
from forecast.tools.benchmark import Work, describe_hardware, time_in_turn
from forecast.training.create_model import computing_in, has_gpu, keep_precision

REPEATS = 10


def retime(tasks: Sequence[Task]) -> dict[Path, dict[str, Any]]:
    """Measure the inference of every run again, on random windows, in this process.

    The first runs of all variants of a task are timed in turn, then the second ones, and so on: a slower machine slows
    all variants. Networks are not compiled.

    Returns:
        By run folder, the times in the form of `run_folders.TIMES_FILE`.

    Raises:
        CheckpointError: a run has no checkpoint, or it cannot be loaded.
    """
    keep_freed_memory()
    session = datetime.now(UTC).isoformat()
    groups = [
        [run for run in group if run is not None]
        for task in tasks
        for group in zip_longest(*(entry.runs for entry in task.variants))
    ]
    found = {}
    for group in track(groups, "Timing"):
        for run, times in zip(group, measure_in_turn(group), strict=True):
            found[run.folder] = {"session": session, **times}
    return found


def measure_in_turn(runs: Sequence[FinishedRun]) -> Iterator[dict[str, Any]]:
    """Yield the time of each run, with the device and the number of threads that it depends on."""
    models = [load_tested(run.folder) for run in runs]
    on_gpu = all(has_gpu(model.config["trainer"]["accelerator"]) for model in models)
    device = torch.device("cuda" if on_gpu else "cpu")
    hardware = {key: describe_hardware(device.type)[key] for key in ("device", "threads")}
    for timing in time_in_turn([make_inference(model, device) for model in models], REPEATS):
        yield {**hardware, "ms_per_window": 1000 * timing["median"] / BATCH_SIZE}


def make_inference(model: TrainedModel, device: torch.device) -> Work:
    """Return the forecast of a batch of random windows, in the precision of training. The values do not matter."""
    before, after = model.config["seq_len"], model.config["pred_len"]
    n_features, n_time = len(model.feature_columns), model.data_state["n_time_features"]
    precision = keep_precision(model.config["trainer"]["precision"])
    with computing_in(precision, device) as dtype:
        model.network.to(device, dtype)
        shapes = (before, n_features), (before, n_time), (after, n_time)
        inputs = [torch.rand((BATCH_SIZE, *shape), device=device) for shape in shapes]

    def infer() -> None:
        with torch.inference_mode(), computing_in(precision, device):
            model.forecast(*inputs)

    return infer
