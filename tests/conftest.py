"""Check every shape in the package's signatures while the tests run, and only then; find the real data."""

import os
import re
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("forecast", "beartype.beartype")

from tests.commands import trained  # noqa: E402  (after the hook)

ROOT = Path(__file__).parent.parent
os.environ["FORECAST_TARGETS"] = ":".join(  # callbacks that tests put into runs by name
    f"tests.probes.{name}"
    for name in re.findall(r"^class (\w+)", (ROOT / "tests" / "probes.py").read_text(), re.MULTILINE)
)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the real ETT files: $FORECAST_DATA_ROOT, data/, or shared/data beside the checkout."""
    places = [Path(os.environ.get("FORECAST_DATA_ROOT", ROOT / "data")), ROOT.parent / "shared" / "data"]
    for place in places:
        if (place / "ETTh1.csv").exists():
            return place
    pytest.skip("ETTh1.csv is not at hand: name its folder in FORECAST_DATA_ROOT")


@pytest.fixture(scope="session")
def etth1(data_root: Path):
    """ETTh1 in the paper's split, windows 48 → 24, all columns."""
    from hydra.utils import instantiate

    from forecast.configuration import composed

    data = instantiate(composed("data=etth1", f"data.root='{data_root}'", "seq_len=48", "pred_len=24").data)
    data.prepare_data()
    data.setup()
    return data


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one epoch: hourly load and temperature, 12 steps → 5, all columns from all."""
    return trained(tmp_path_factory.mktemp("all"))


@pytest.fixture(scope="session")
def quantile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with quantiles trained in, then refitted on all rows."""
    return trained(tmp_path_factory.mktemp("quantile"), "loss=quantile", "refit=full")
