"""The exported graph of every attention type and variant against the network itself, and the checks of the export."""

from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch

from forecast.cli.compose import compose_config
from forecast.data.covariates import encode_static, fit_static, static_feature_names
from forecast.data.source import Domain
from forecast.data.time_features import time_feature_names, time_features
from forecast.models import ResidualInformer
from forecast.tools.export.graph import (
    ForecastGraph,
    count_allowed_exceptions,
    trace_forecast,
    write_onnx,
)
from forecast.tools.export.metadata import PANDAS, Run, load_onnx, static_expressions
from forecast.training.create_model import create_model

ROOT = Path(__file__).parents[2]
LENGTHS = ("seq_len=168", "label_len=70", "pred_len=100", "num_landmarks=7")  # more than one chunk of 64
VARIANTS = [  # the encoder's second layer, and cross=full, are in the trained runs of test_export.py
    ("attention=linear", "cross=linear", "feature_map=taylor"),
    ("attention=probsparse", "cross=probsparse"),
    ("attention=probsparse", "faithful=true", "factor=1"),
    ("attention=linear", "feature_map=favor"),
    ("attention=linear", "feature_map=relu", "model=informer_stack"),
    ("attention=nystrom", "cross=nystrom", "model.share_layers=true"),
    ("attention=fastformer", "model.attention.decoder.interaction=concat", "model.share_layers=true"),
    ("attention=gated_delta", "cross=gated_delta"),
    ("attention=sliding_window", "attention_window=9"),
    ("attention=full", "model=residual_informer", "model.linear=false"),
    ("attention=linear", "cross=linear", "model=residual_informer", "model.tokens=independent"),
    ("attention=probsparse", "model=residual_informer", "model.tokens=joint"),
    ("attention=linear", "model=patch_encoder", "model.tokens=axes", "variables=full"),
    ("attention=fastformer", "cross=linear", "model=residual_informer", "model.normalize=false"),
]


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


def drawn(shapes: dict[str, list], batch: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(batch)
    inputs = {
        name: torch.randn(batch, *shape[1:], generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    inputs |= scales(batch, shapes["past"][2])
    return {**inputs, "past": inputs["past"] * inputs["scale"][:, None] + inputs["center"][:, None]}


def run_onnx(run: Run, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.from_numpy(run({name: values.numpy() for name, values in inputs.items()})["forecast"])


@torch.no_grad()
def expected(graph: ForecastGraph, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Scaled by hand in NumPy's float64, and back."""
    center, scale = (inputs[name].numpy()[:, None] for name in ("center", "scale"))
    past = (inputs["past"].numpy() - center) / scale
    times = inputs["past_time"].float(), inputs["future_time"].float()
    scaled = graph.network(torch.from_numpy(past.astype("float32")), *times)
    return torch.from_numpy(scaled.numpy().astype("float64") * scale + center)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(variant, marks=[] if "model.linear=false" in variant else pytest.mark.long)
        for variant in VARIANTS
    ],
    ids=" ".join,
)
def test_every_variant_gives_what_its_network_gives(overrides: tuple[str, ...], tmp_path) -> None:
    """Also at a level of 10⁷ (`scales`), of which float32 could not say more than a whole number."""
    graph, shapes = untrained_graph(*LENGTHS, *overrides)
    program = trace_forecast(graph, shapes)
    write_onnx(program, tmp_path / "m.onnx", {"outputs": {"forecast": []}})
    assert str(ROOT).encode() not in (tmp_path / "m.onnx").read_bytes()
    assert {i.type for i in onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).get_inputs()} == {
        "tensor(double)"
    }
    run = load_onnx(tmp_path / "m.onnx")
    for batch in (1, 2, 7):
        inputs = drawn(shapes, batch)
        ours = expected(graph, inputs)
        assert ours.shape == (batch, 100, 3)
        assert ours.std(dim=1).min() > 0
        got = run_onnx(run, inputs)
        assert got.shape == ours.shape
        assert ((got - ours) / inputs["scale"][:, None]).abs().max() < 1e-5


@pytest.mark.parametrize("freq", ["s", "15min", "h", "D", "W-SUN", "MS", "QS"])
def test_time_features_in_pandas_alone(freq: str) -> None:
    dates = pd.date_range("2023-11-05 13:07:31", periods=500, freq=freq)
    columns = [eval(PANDAS[name], {"dates": dates}) for name in time_feature_names(freq)]
    alone = np.stack([np.asarray(column, dtype="float64") for column in columns], axis=1)
    assert np.array_equal(alone, time_features(dates, freq))


@pytest.mark.filterwarnings("ignore:.*the same in every series:UserWarning")
def test_static_features_in_pandas_alone() -> None:
    static = pd.DataFrame(
        {"region": ["n", "s", "it's", "s"], "size": [1.5, 2.0, 7.0, -3.25], "one": [4, 4, 4, 4]}
    )
    encoding = fit_static("the data", static)
    features = static_expressions(encoding)
    assert [feature["name"] for feature in features] == static_feature_names(encoding)
    columns = [eval(feature["pandas"], {"static": static, "np": np}) for feature in features]
    alone = np.stack([np.asarray(column, dtype="float64") for column in columns], axis=1)
    assert np.allclose(alone, encode_static("the data", static, encoding), atol=1e-6)


@pytest.mark.parametrize(
    ("overrides", "allowed"), [(("attention=nystrom",), 0), (("attention=full", "cross=probsparse"), 2)]
)
def test_only_a_ranking_may_flip(overrides: tuple[str, ...], allowed: int) -> None:
    network = untrained_graph(*overrides)[0].network
    assert count_allowed_exceptions(network, 2785) == allowed
    assert count_allowed_exceptions(network, 999) == 0
