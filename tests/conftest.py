"""Check every shape in the package's signatures while the tests run, and only then; find the real data."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("forecast", "beartype.beartype")

ROOT = Path(__file__).parent.parent


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
