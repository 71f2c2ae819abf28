"""`data.transform=auto` on data with planted transforms."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf

from forecast.data import DataModule, csv_data
from forecast.evaluation.baselines import FittedBaselines, Linear
from forecast.training.auto_settings import choose_transforms, linear_error, resolve_transform

ROWS = 1500
OPTIONS = {"name": "mine", "seq_len": 24, "pred_len": 6, "split": [0.7, 0.1, 0.2]}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hourly values: of a day's curve with noise, of its hyperbolic sine, and of counts with a level of their own."""
    random, t = np.random.default_rng(0), np.arange(ROWS)
    noise = random.normal(0, 1, (ROWS, 3))
    for i in range(1, ROWS):
        noise[i] += 0.8 * noise[i - 1]
    level = np.sin(2 * np.pi * t / 24)[:, None] + noise
    columns = {
        "even": level[:, 0],
        "heavy": np.sinh(1.6 * level[:, 1]),
        "counts": np.floor(np.exp(1.2 * level[:, 2] + 1)),
    }
    path = tmp_path_factory.mktemp("transforms") / "mine.csv"
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    pd.DataFrame(columns, dates).to_csv(path)
    return path


def data(file: Path, **options: object) -> DataModule:
    module = csv_data(path=file, **{**OPTIONS, "transform": "auto", **options})
    module.read()
    return module


def test_a_column_gets_the_transform_that_it_needs(file: Path) -> None:
    chosen = choose_transforms(data(file, columns=["even", "heavy"]), "mae")
    assert chosen.kinds == {"even": "none", "heavy": "asinh"}
    assert chosen.relative_errors["heavy"] < 0.97
    assert chosen.relative_errors["even"] == 1
    assert "heavy asinh (-" in chosen.describe()
    assert chosen.describe().endswith("validation MAE of the linear baseline")


def test_counts_get_a_logarithm_only_with_a_bound(file: Path) -> None:
    """Later rows may be negative where no bound says that they cannot."""
    assert choose_transforms(data(file, columns=["counts"], lower=0), "mae").kinds == {"counts": "log1p"}
    assert choose_transforms(data(file, columns=["counts"]), "mae").kinds["counts"] in ("none", "asinh")


def test_a_target_is_judged_alone_beside_covariates_and_settings_by_column(file: Path) -> None:
    given = {
        "features": "MS", "target": "heavy", "columns": ["heavy"], "past_covariates": ["even"],
        "future_covariates": ["counts"], "fill": {"even": "zero"}, "upper": {"heavy": 1e6},
    }  # fmt: skip
    assert choose_transforms(data(file, **given), "mae").kinds == {"heavy": "asinh"}


def test_later_rows_choose_nothing(file: Path, tmp_path: Path) -> None:
    table, other = pd.read_csv(file), tmp_path / "mine.csv"
    table.loc[int(0.8 * ROWS) :, ["even", "heavy"]] = 1e6
    table.to_csv(other, index=False)
    before, after = (
        choose_transforms(data(path, columns=["even", "heavy"]), "mse") for path in (file, other)
    )
    assert before == after


@pytest.mark.parametrize(("loss", "power"), [("mae", 1), ("quantile", 1), ("mse", 2)])
def test_the_error_is_that_of_the_linear_baseline_in_original_units(
    file: Path, loss: str, power: int
) -> None:
    module = data(file, columns=["heavy"]).with_transform("asinh")
    fitted = FittedBaselines.fit(module)
    batch = module.windows["val"].gather(torch.arange(module.n_windows["val"]))
    forecast, truth = (
        module.unscale_targets(values, batch.series)
        for values in (Linear(fitted.linear)(module.windows["val"], batch), batch.future)
    )
    train = pd.read_csv(file)[["heavy"]].iloc[: int(0.7 * ROWS)].to_numpy()
    unit = train.std(0)
    errors = np.abs((forecast - truth).numpy()) / unit
    assert linear_error(module, loss) == pytest.approx((errors**power).mean() ** (1 / power), rel=1e-5)


def test_the_choice_replaces_the_setting(file: Path) -> None:
    config = OmegaConf.create({"loss": "mae", "data": {"transform": "auto"}})
    module = data(file, columns=["even", "heavy"])
    assert resolve_transform(config, module, None) is not None
    assert config.data.transform == {"heavy": "asinh"}
    module.setup()
    assert module.target_scaler.domain.transforms == ("none", "asinh")
    assert resolve_transform(config, module, None) is None  # nothing is left to choose


def test_data_that_are_scaled_are_scaled_again(file: Path) -> None:
    module = data(file, columns=["heavy"])
    module.setup()
    before = module.windows["train"].gather(torch.arange(3)).past
    resolve_transform(OmegaConf.create({"loss": "mae", "data": {"transform": "auto"}}), module, None)
    assert module.target_scaler.domain.transforms == ("asinh",)
    assert not torch.allclose(module.windows["train"].gather(torch.arange(3)).past, before)


def test_a_run_that_goes_on_keeps_its_transforms(file: Path) -> None:
    config = OmegaConf.create({"loss": "mae", "data": {"transform": "auto"}})
    module = data(file, columns=["even", "heavy"])
    content = {"hyper_parameters": {"data": {"transform": {"even": "asinh"}}}}
    assert resolve_transform(config, module, content) is None
    module.setup()
    assert module.target_scaler.domain.transforms == ("asinh", "none")
    assert config.data.transform == {"even": "asinh"}
