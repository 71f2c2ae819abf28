"""Scores of sample paths, and the measurement of the intervals of sums that docs/intervals.md quotes."""

import tempfile
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.cells import Cell
from experiments.run import Context
from experiments.store import Row
from experiments.studies import SMALL
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.sample_paths import draw_sample_paths, interpolate_quantiles
from forecast.evaluation.scores import bounds
from forecast.inference.model import load_tested

CASES = {
    "load, 24 hours": ("data=load", "features=MS", "pred_len=24"),
    "load, 168 hours": ("data=load", "features=MS", "pred_len=168"),
    "ETTh1, 24 hours": ("data=csv", "data.split=[12,4,4]", "pred_len=24", "data.path=ROOT/ETTh1.csv"),
}
BOUNDS, INDEPENDENT, SAMPLES = "bounds", "independent", "samples"
"""Sums of bounds of the steps; quantiles of the sums of independently drawn steps; those of sums of sample paths."""

LEVELS, N_SAMPLES, MAX_ORIGINS, BATCH = (80, 95), 200, 500, 8


def list_cells(table: str) -> list[Cell]:
    return [Cell(table, name, (*given, *SMALL), {"case": name}) for name, given in CASES.items()]


def energy_score(
    samples: Float[Tensor, "*batch values samples"], truth: Float[Tensor, "*batch values"]
) -> Float[Tensor, "*batch"]:
    """Energy score E‖X − y‖ − ½ E‖X − X'‖ of joint samples (Gneiting and Raftery 2007); lower is better."""
    paths = samples.mT.contiguous()  # (batch, samples, values)
    distance = torch.linalg.vector_norm(paths - truth[..., None, :], dim=-1).mean(-1)
    return distance - torch.cdist(paths, paths).mean((-2, -1)) / 2


def variogram_score(
    samples: Float[Tensor, "*batch values samples"], truth: Float[Tensor, "*batch values"], order: float = 0.5
) -> Float[Tensor, "*batch"]:
    """Variogram score (Scheuerer and Hamill 2015): mean over pairs of values i, j of (|yᵢ − yⱼ|ᵖ − E|Xᵢ − Xⱼ|ᵖ)²."""
    differences = [(samples - samples[..., [i], :]).abs().pow(order).mean(-1) for i in range(truth.shape[-1])]
    observed = (truth[..., :, None] - truth[..., None, :]).abs().pow(order)
    return (observed - torch.stack(differences, dim=-1)).square().mean((-2, -1))


def draw_both(
    quantiles: Float[Tensor, "batch steps n_targets quantiles"], calibration: Calibration, samples: int
) -> dict[str, Float[Tensor, "batch steps n_targets samples"]]:
    """Samples whose steps are drawn independently, and sample paths; each window has random numbers of its own."""
    assert calibration.ranks is not None
    ranks, at = calibration.ranks.flatten(0, 1)[:, None], calibration.quantiles
    drawn = torch.rand(*quantiles.shape[:-1], samples, dtype=torch.float64)
    seed = int(torch.randint(2**31, ()))
    return {
        INDEPENDENT: interpolate_quantiles(quantiles, at, drawn),
        SAMPLES: draw_sample_paths(quantiles, at, ranks, samples, seed),
    }


def intervals_of_sums(
    quantiles: Float[Tensor, "batch steps n_targets quantiles"],
    calibration: Calibration,
    drawn: dict[str, Float[Tensor, "batch steps n_targets samples"]],
    level: float,
) -> dict[str, Float[Tensor, "2 batch n_targets"]]:
    """The bounds of an interval of the sum over the steps, by method."""
    at = torch.tensor(bounds(level), dtype=torch.float64)
    steps = quantiles.double()[..., [calibration.quantiles.index(p) for p in bounds(level)]]
    sums = {name: samples.sum(1).quantile(at, dim=-1) for name, samples in drawn.items()}
    return {BOUNDS: steps.sum(1).movedim(-1, 0), **sums}


def run_sample_paths(cell: Cell, context: Context) -> Row:
    """Measure intervals of the sum over the horizon, and scores of its steps, of each variable on test windows."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        given = [override.replace("=ROOT", f"={context.root}", 1) for override in cell.overrides]
        context.python("-m", "forecast.train", *given, f"hydra.run.dir={folder}/run")
        model = load_tested(Path(folder, "run"))
        windows, calibration = model.data().windows["test"], model.calibration
    assert calibration is not None
    found: dict[str, list[Tensor]] = {}
    stride = -(-len(windows) // MAX_ORIGINS)
    for index in torch.arange(0, len(windows), stride).split(BATCH):
        batch = windows.gather(index)
        quantiles, truth = calibration.around(model.forecast_batch(batch)), batch.future.double()
        drawn = draw_both(quantiles, calibration, N_SAMPLES)
        for level in LEVELS:
            for name, (low, high) in intervals_of_sums(quantiles, calibration, drawn, level).items():
                total = truth.sum(1)
                found.setdefault(f"coverage_{level}/{name}", []).append((low <= total) & (total <= high))
                found.setdefault(f"width_{level}/{name}", []).append(high - low)
        for name, samples in drawn.items():
            for score in (energy_score, variogram_score):
                values = score(samples.transpose(1, 2), truth.mT)
                found.setdefault(f"{score.__name__}/{name}", []).append(values)
    return {
        "windows": len(range(0, len(windows), stride)),
        **{name: torch.cat(each).double().mean().item() for name, each in found.items()},
    }
