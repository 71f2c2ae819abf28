"""Many series: what comes after a date reaches no forecast from that date or before it, in any series.

Future covariates are known over the horizon, as they are declared to be; past covariates are not.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.cli.compose import compose_config
from tests.commands.test_leakage import measure
from tests.support.commands import TINY

ROWS, PRED = 120, 5
DATES = pd.date_range("2023-01-01", periods=ROWS, freq="D")
ROLES = ("data.past_covariates=[visits]", "data.future_covariates=[price]")
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
        columns = {"unique_id": name, "ds": DATES, "y": y, "visits": visits, "price": price, "size": number}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts)


def check(folder: Path, *given: str) -> None:
    found = []
    for changed in (ROWS, CHANGED):
        table(changed).to_csv(folder / "long.csv", index=False)
        path = f"data.path='{folder / 'long.csv'}'"
        found.append(
            measure(compose_config("data=long", path, *TINY, "data.static_covariates=[size]", *given))
        )
    (data, once, each), (_, once_after, each_after) = found
    for name, value in once.items():
        pairs = zip(value, once_after[name], strict=True)
        assert all(torch.equal(a, b) for a, b in pairs), name
    assert not torch.equal(each.pop("test truth")[1], each_after["test truth"][1])
    for name, (origins, value) in each.items():
        unknowing = data.panel.dates(origins.numpy()) <= DATES[CHANGED]
        assert unknowing.all() if name.startswith("val") else 0 < unknowing.sum() < len(unknowing)
        assert torch.equal(value[unknowing], each_after[name][1][unknowing]), name


@pytest.mark.parametrize("scale_by", ["series", pytest.param("all", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "given",
    [
        ("features=S", "attention=full"),
        (*ROLES, "features=MS", "attention=probsparse"),
        (*ROLES, "features=M", "attention=nystrom"),
    ],
    ids=lambda given: given[-2],
)
def test_rows_after_a_date_do_not_change_forecasts_from_it(
    tmp_path: Path, given: tuple[str, ...], scale_by: str
) -> None:
    check(tmp_path, *given, f"data.scale_by={scale_by}")


def test_a_covariate_that_is_declared_to_be_known_is(tmp_path: Path) -> None:
    """And so would a leak of it be found."""
    with pytest.raises(AssertionError, match="future_time"):
        check(tmp_path, "features=MS", "data.future_covariates=[visits,price]", "attention=full")
