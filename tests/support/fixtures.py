"""Fixtures that several folders of tests share. `tests/conftest.py` loads this file in the processes that run tests."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import pytest

import tests.support.composed_once  # noqa: F401
from tests.support.commands import trained
from tests.support.csv_files import real_file
from tests.support.synthetic_runs import pair as pair

gc.freeze()  # a training run collects garbage: it need not look through all imported modules each time

hypothesis.settings.register_profile("forecast", deadline=None)  # no test asserts a time
hypothesis.settings.load_profile("forecast")

os.environ["FORECAST_TARGETS"] = ":".join(  # callbacks and models that tests name on the command line
    f"tests.support.{name}"
    for name in (
        *(f"probe_callbacks.{callback}" for callback in ("Witness", "Failure", "TellToStop")),
        *(f"own_model.{model}" for model in ("OneLayer", "ShrunkLinear", "NotAModel")),
    )
)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the real ETT files; see `real_file`."""
    return real_file("ETTh1.csv").parent


@pytest.fixture(scope="session")
def etth1(data_root: Path):
    """The data module of ETTh1 in the split of the paper, with windows of 48 → 24 steps and all columns."""
    from hydra.utils import instantiate

    from forecast.cli.compose import compose_config

    data = instantiate(compose_config("data=etth1", f"data.root='{data_root}'", "seq_len=48", "pred_len=24").data)
    data.prepare_data()
    data.setup()
    return data


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one epoch on hourly load and temperature: 12 → 5 steps, all columns from all columns."""
    return trained(tmp_path_factory.mktemp("all"))


@pytest.fixture(scope="session")
def quantile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run like `run` with `loss=quantile`, refitted on all rows."""
    return trained(tmp_path_factory.mktemp("quantile"), "loss=quantile", "refit=full")


@pytest.fixture
def types_unchecked() -> Iterator[None]:
    """Call constructors with the types that a user gives, as outside of tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
