"""Graphs of forecasts, as `forecast.export` traces them, of models that are not trained."""

import torch
from hydra.utils import instantiate

from forecast.cli.compose import compose_config
from forecast.data.scaler import Scaler
from forecast.models import ResidualInformer
from forecast.tools.export.graph import ForecastGraph

SMALL = ("model=informer", "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "model.encoder_layers=1")


def untrained_graph(
    *overrides: str, n_features: int = 3, n_targets: int = 3
) -> tuple[ForecastGraph, dict[str, list]]:
    """An untrained forecast whose first column has level 10⁷ and deviation 1, and its inputs' shapes."""
    torch.manual_seed(0)
    config = compose_config(*SMALL, *overrides)
    network = instantiate(config.model)(n_features=n_features, n_targets=n_targets, n_time_features=4).eval()
    if isinstance(network, ResidualInformer):  # which says nothing before it is fitted and trained
        weight = torch.randn(config.seq_len, config.pred_len) / config.seq_len
        assert network.linear is not None
        network.linear.weight.copy_(weight)
        network.time_embedding.set_calendar_features(())
        torch.nn.init.normal_(network.head.out.weight)
    center = torch.tensor([1e7, -3.0, 0.5], dtype=torch.float64)
    scale = torch.tensor([1.0, 20.0, 1e-3], dtype=torch.float64)
    scaler = Scaler(center[None, :n_features], scale[None, :n_features])
    graph = ForecastGraph(
        network, scaler, scaler.domain, range(n_targets), trained_for=None, calibration=None
    )
    steps = {"past": config.seq_len, "past_time": config.seq_len, "future_time": config.pred_len}
    widths = {"past": n_features, "past_time": 4, "future_time": 4}
    return graph.eval(), {name: ["batch", steps[name], widths[name]] for name in steps}
