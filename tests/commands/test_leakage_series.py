"""Many series: what comes after a date reaches no forecast from that date or before it, in any series.

Future covariates are known over the horizon, as they are declared to be; past covariates are not.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.cli.compose import compose_config
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import calibrate
from forecast.training.build import make_forecaster
from forecast.training.module import predict
from forecast.training.preparation import read_data
from tests.support.commands import TINY

ROWS, PRED = 120, 5
DATES = pd.date_range("2023-01-01", periods=ROWS, freq="D")
CHANGED = 108
"""The date's number from which on all series are others. The test begins at 96."""


def table(changed: int) -> pd.DataFrame:
    """Three series of one span, whose target and past covariate change; the known one only beyond the horizon."""
    generator, parts = np.random.default_rng(0), []
    for number, name in enumerate(("a", "b", "c")):
        y = 10 * (number + 1) + np.sin(np.arange(ROWS)) + generator.normal(size=ROWS)
        visits, price = generator.normal(size=(2, ROWS))
        y[changed:], visits[changed:] = 500 - 3 * y[changed:], visits[changed:] + 90
        price[changed + PRED :] += 7
        parts.append(
            pd.DataFrame(
                {"unique_id": name, "ds": DATES, "y": y, "visits": visits, "price": price, "size": number}
            )
        )
    return pd.concat(parts)


def answers(folder: Path, changed: int, given: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any], Any]:
    path = folder / "long.csv"
    table(changed).to_csv(path, index=False)
    config = compose_config(
        "data=long", f"data.path='{path}'", *TINY, "data.static_covariates=[size]", *given
    )
    data = read_data(config)
    data.setup()
    fitted = FittedBaselines.fit(data)
    torch.manual_seed(0)
    forecaster = make_forecaster(config, data, fitted)
    windows = data.windows["test"]
    index = torch.arange(len(windows))
    batch = windows.gather(index)
    point = predict(forecaster, batch)
    calibration = calibrate(
        lambda batch: predict(forecaster, batch), data.windows["val"], data.target_scaler, 64, [80]
    )
    once = {
        "center": data.scaler.center, "scale": data.scaler.scale, **fitted.linear.tensors(),
        "naive_mae": fitted.naive_mae, "offsets": calibration.offsets,
    }  # fmt: skip
    each = {
        "past": batch.past, "past_time": batch.past_time, "future_time": batch.future_time, "model": point,
        "units": data.unscale_targets(point, windows.series(index)), "truth": batch.future,
        **{name: rule(windows, batch) for name, rule in fitted.baselines().items()},
    }  # fmt: skip
    return once, each, data.panel.dates(windows.origins(index).numpy()) <= DATES[CHANGED]


def check(folder: Path, *given: str) -> None:
    (once, each, unknowing), (once_after, each_after, _) = (
        answers(folder, changed, given) for changed in (ROWS, CHANGED)
    )
    assert 0 < unknowing.sum() < len(unknowing)
    for name, value in once.items():
        assert torch.equal(value, once_after[name]), name
    assert not torch.equal(each.pop("truth"), each_after["truth"])
    for name, value in each.items():
        assert torch.equal(value[unknowing], each_after[name][unknowing]), name


@pytest.mark.parametrize("scale_by", ["series", pytest.param("all", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "given",
    [
        ("features=S", "attention=full"),
        (
            "features=MS",
            "data.past_covariates=[visits]",
            "data.future_covariates=[price]",
            "attention=probsparse",
        ),
        (
            "features=M",
            "data.past_covariates=[visits]",
            "data.future_covariates=[price]",
            "attention=nystrom",
        ),
    ],
    ids=lambda given: given[0],
)
def test_rows_after_a_date_do_not_change_forecasts_from_it(
    tmp_path: Path, given: tuple[str, ...], scale_by: str
) -> None:
    check(tmp_path, *given, f"data.scale_by={scale_by}")


def test_a_covariate_that_is_declared_to_be_known_is(tmp_path: Path) -> None:
    """And so would a leak of it be found."""
    with pytest.raises(AssertionError, match="future_time"):
        check(tmp_path, "features=MS", "data.future_covariates=[visits,price]", "attention=full")
