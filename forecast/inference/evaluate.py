"""Evaluation of a trained model on one split, as in the test of its run."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from forecast.data import Batch, DataModule
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.measurement import Results, SplitScorer, ValidationErrors
from forecast.evaluation.scores import parse_levels
from forecast.inference.model import TrainedModel
from forecast.models.residual import arrange_quantiles
from forecast.system.errors import CheckpointError, check_choice
from forecast.system.progress import track
from forecast.training.hardware import computing, has_gpu, keep_precision


def evaluate(
    model: TrainedModel, data: DataModule, split: str = "test", *, progress: bool = True
) -> tuple[dict[str, Any], Results]:
    """Score every window of a split, on the best available device and in the precision of training.

    The baselines, the denominator of MASE and the calibration come from the training run.

    Returns:
        The scores in the layout of metrics.json, and the results that they come from.

    Raises:
        ConfigError: `data` does not have the split.
        CheckpointError: the run was not tested and the data have no validation rows.
    """
    check_choice("split", split, data.windows)
    fitted, device = baselines_for(model, data), torch.device("cuda" if has_gpu() else "cpu")
    # with gradients as in the run's test: without them, kernels round differently
    network = copy.deepcopy(model.network).requires_grad_(True)
    data.tested_split = split
    levels, calibrations = parse_levels(model.config["levels"]), model.calibrations
    precision = keep_precision(model.config["trainer"]["precision"])
    with computing(network, precision, device) as dtype:

        def forecast(part: str, what: str) -> Iterator[tuple[Batch, Tensor]]:
            """Yield each batch of a split, with the output of the network within the bounds."""
            loader = data.loader(part, device=device)
            for batch in track(loader, what) if progress else loader:
                batch = Batch(*(each.to(dtype) if each.is_floating_point() else each for each in batch))
                output = network(batch.past, batch.past_time, batch.future_time)
                if model.quantiles is not None:
                    output = arrange_quantiles(output, data.n_targets)
                yield batch, data.clip_targets(output, batch.series)

        if model.calibration is None:
            validation = ValidationErrors(data, fitted, levels, device)
            for batch, output in forecast("val", "validation"):
                validation.update(model.point(output), batch)
            calibrations = validation.calibrate()
        test = SplitScorer(data, fitted, calibrations, model.quantiles, levels, device)
        for batch, output in forecast(split, "test"):
            test.update(model.point(output), output, batch)
    results = test.compute()
    facts = {"checkpoint": str(model.path), "data": data.name, "split": split}
    return {**facts, "n_windows": data.n_windows[split], **results.content()}, results


def baselines_for(model: TrainedModel, data: DataModule) -> FittedBaselines:
    """Return the baselines of the run, or fit them to `data`. Raises CheckpointError if neither is possible."""
    if model.baselines is None and "val" not in data.windows:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines and no calibration; give the folder of a "
            "finished run"
        )
    return model.baselines or FittedBaselines.fit(data)
