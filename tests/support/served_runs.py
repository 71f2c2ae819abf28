"""Trained models for the tests of the server: covariates of every type, many series, and local times with quantiles."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import MLP, PLAIN, answer
from tests.support.covariate_file import COVARIATES, table
from tests.support.long_files import long_frame

SMALL = (*MLP, PLAIN, "logger=[]", "trainer.max_epochs=1", "callbacks.progress.refresh_rate=0")
LONG = (
    "data=long", "data.path=long.csv", "data.id_column=unique_id", "data.date_column=ds", "data.target=y",
    "data.static_covariates=[region,size]", "data.future_covariates=[price]",
)  # fmt: skip
RUNS: dict[str, tuple[str, ...]] = {
    "covariates": ("data=csv", "data.path=table.csv", *COVARIATES),
    "long": (*LONG, "refit=full"),
    "zone": (
        "data=csv", "data.path=zone.csv", "data.columns=[load]", "data.holidays=DE", "data.transform=log1p",
        "data.lower=0", "loss=quantile", "levels=[50,80]",
    ),
}  # fmt: skip


def train_served_runs(folder: Path) -> dict[str, Path]:
    """Train a run of each kind of data; return their folders by name."""
    table().to_csv(folder / "table.csv")
    load = table()[["load"]]
    zone = np.exp(13 + (load - load.mean()) / load.std() / 2)  # large beside the scale of its logarithm
    zone.set_axis(zone.index.tz_localize("UTC").tz_convert("Europe/Berlin").rename("date")).to_csv(
        folder / "zone.csv"
    )
    long_frame(future=10).to_csv(folder / "long.csv", index=False)
    found = {}
    options_of_all = (*SMALL, "levels=[80]", "data.split=[0.5,0.3,0.2]")
    for name, options in RUNS.items():
        place = folder / "runs" / name
        with pytest.MonkeyPatch.context() as patch:
            assert answer(patch, "train", folder, *options_of_all, *options, f"hydra.run.dir={place}") == 0
        found[name] = place
    return found
