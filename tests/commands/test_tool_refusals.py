"""Benchmarks, dashboards and exports that are refused, with the text of each message."""

import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from forecast.cli.compose import compose_config
from forecast.dashboard import dashboard, has_account
from forecast.data import csv_data
from forecast.system.errors import ConfigError
from forecast.tools.benchmark import list_cases, make_work
from forecast.tools.export import metadata
from forecast.tools.export.difference import Difference, check_result
from forecast.tools.export.graph import trace_forecast
from tests.support.csv_files import numbers, write
from tests.support.export_graphs import untrained_graph
from tests.support.refusals import Refusal


def benchmark(override: str, says: str) -> Refusal:
    def call(folder: Path) -> None:
        config = compose_config(override, config_name="benchmark")
        make_work(config, list_cases(config)[0], "cpu")

    return Refusal(override, says, ConfigError, call)


def short_key(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_API_KEY", "short")
        has_account()


def without_workspaces(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "wandb_workspaces", None)
        dashboard(OmegaConf.create({"mode": "auto"}))


def without_onnx(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "list_missing_packages", lambda: ["onnx"])
        metadata.check_onnx_installed()


def random_graph(what: str, says: str, *overrides: str) -> Refusal:
    """A graph of a model in training."""

    def call(folder: Path) -> None:
        graph, shapes = untrained_graph("seq_len=12", "label_len=6", "pred_len=5", *overrides)
        graph.train()
        trace_forecast(graph, shapes)

    return Refusal(what, says, ConfigError, call)


def difference(what: str, says: str, largest: float, windows: int) -> Refusal:
    """A file that differs from PyTorch by up to `largest` in this many windows."""

    def call(folder: Path) -> None:
        path = write(folder, numbers(100).to_csv(index=False))
        data = csv_data(path=path, name="mine", seq_len=12, pred_len=5, split=[0.7, 0.1, 0.2])
        data.setup()
        sizes = torch.tensor([largest, 0.0, 0.0], dtype=torch.float64)
        found = Difference(20, 1, windows, sizes, sizes, torch.ones_like(sizes), torch.ones_like(sizes))
        check_result(found, data, {"target_columns": ["load", "price", "wind"]}, 1e-4, allowed=0)

    return Refusal(what, says, ConfigError, call)


REFUSED = [
    benchmark("attention_types=[full,sparse]", "attention_types: sparse is unknown; choose from …uniform"),
    benchmark("benchmark.lengths=[12/6/3]", "benchmark.lengths: 12/6/3 must be a whole number such as 512"),
    benchmark("benchmark.lengths=[0]", "benchmark.lengths: 0 must be a whole number such as 512"),
    benchmark("benchmark.part=all", "benchmark.part=all must be one of layer, mixing"),
    Refusal("a key of the wrong form", "WANDB_API_KEY invalid: API key must have 40+ characters, has 5.", ConfigError, short_key),
    Refusal("an unknown mode", "mode=maybe is not one of auto, offline", ConfigError, lambda folder: dashboard(OmegaConf.create({"mode": "maybe"}))),
    Refusal("without wandb-workspaces", "forecast.dashboard: wandb-workspaces is not installed: pip install -c constraints.txt -e '.[dashboard]'", ConfigError, without_workspaces),
    Refusal("without onnx", "format=onnx: onnx is not installed: pip install -c constraints.txt -e '.[export]'", ConfigError, without_onnx),
    random_graph("dropout in an exported graph", "the exported graph would draw random numbers: aten.dropout.default", "attention=full", "model.dropout=0.5"),
    random_graph("a sample in an exported graph", "the exported graph would draw random numbers: aten.rand.default", "attention=probsparse", "factor=1", "model.dropout=0.0"),
    difference("a difference in one window", "the exported file differs from PyTorch by up to 0.5 in scaled units (column load), in 1 of 20 windows by more than tolerance=0.0001: nothing is written", 0.5, 1),
    difference("forecasts that are no numbers", "the exported file differs from PyTorch by up to nan in scaled units (column load), in 20 of 20 windows by more than tolerance=0.0001: nothing is written", torch.nan, 20),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
