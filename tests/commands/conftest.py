from pathlib import Path
from typing import Any

import pytest

from forecast import Model, load
from tests.support.commands import trained_on_series
from tests.support.long_files import long_frame


@pytest.fixture(scope="session")
def series_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on four daily series, 12 → 5 steps, with the price as future covariate and the region as static one."""
    return trained_on_series(tmp_path_factory.mktemp("series"), long_frame(future=10))


@pytest.fixture
def model(run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The model of `run`, in the folder of its data."""
    monkeypatch.chdir(run.parents[1])
    return load(run)


@pytest.fixture
def series_model(series_run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The model of `series_run`, in the folder of its data."""
    monkeypatch.chdir(series_run.parents[1])
    return load(series_run)


@pytest.fixture(autouse=True)
def leave_pictures_of_explanations_empty(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save an empty file for each picture of an explanation: drawing takes longer than explaining a tiny model."""

    def save_nothing(folder: Path, picture: Any) -> str:
        (folder / f"{picture.name}.png").touch()
        return ""

    if request.node.get_closest_marker("draws") is None:
        monkeypatch.setattr("forecast.tools.explain.explanation._save_picture", save_nothing)


@pytest.fixture
def empty_picture_of_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save an empty file for the picture of a check: drawing takes longer than examining a small file."""
    monkeypatch.setattr("forecast.tools.check.report.save_figure", lambda diagnosis, path: path.touch())
