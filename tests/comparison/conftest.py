from pathlib import Path

import pytest

from tests.comparison.made import configuration, make_run


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A folder of four runs: two attentions, two seeds each."""
    for kind, mse in (("full", 0.40), ("linear", 0.45)):
        config = configuration(f"attention={kind}")
        for seed in (1, 2):
            made = {**config, "seed": seed, "data": {**config["data"], "seed": seed}}
            make_run(tmp_path / "runs" / f"{kind}-{seed}", made, mse=mse + 0.01 * seed)
    return tmp_path / "runs"
