"""Graphs of forecasts, as `forecast.export` traces them, of models that are not trained."""

import torch

from forecast.cli.compose import compose_config
from forecast.data.source import Domain
from forecast.models import ResidualInformer
from forecast.tools.export.graph import ForecastGraph
from forecast.training.create_model import create_model

CENTER, SCALE = (1e7, -3.0, 0.5), (1.0, 20.0, 1e-3)
"""The scale of the first columns."""
SMALL = ("model=informer", "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "model.encoder_layers=1")


def untrained_graph(
    *overrides: str, n_features: int = 3, n_targets: int = 3
) -> tuple[ForecastGraph, dict[str, list]]:
    """An untrained forecast and the shapes of its inputs."""
    torch.manual_seed(0)
    config = compose_config(*SMALL, *overrides)
    network = create_model(config.model, n_features=n_features, n_targets=n_targets, n_time_features=4).eval()
    if isinstance(network, ResidualInformer):  # which says nothing before it is fitted and trained
        if network.linear is not None:
            network.linear.weight.copy_(torch.randn(config.seq_len, config.pred_len) / config.seq_len)
        network.time_embedding.set_calendar_features(())
        torch.nn.init.normal_(network.head.out.weight)
    graph = ForecastGraph(
        network, Domain.unlimited(n_features), range(n_targets), trained_for=None, calibration=None
    )
    steps = {"past": config.seq_len, "past_time": config.seq_len, "future_time": config.pred_len}
    widths = {"past": n_features, "past_time": 4, "future_time": 4}
    shapes = {name: ["batch", steps[name], widths[name]] for name in steps}
    return graph.eval(), {**shapes, "center": ["batch", n_features], "scale": ["batch", n_features]}


def scales(batch: int, n_features: int) -> dict[str, torch.Tensor]:
    """The inputs `center` and `scale` of this many windows; the first column has level 10⁷ and deviation 1."""
    parts = {"center": CENTER, "scale": SCALE}
    return {
        name: torch.tensor(part[:n_features], dtype=torch.float64).expand(batch, -1)
        for name, part in parts.items()
    }
