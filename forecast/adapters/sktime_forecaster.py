"""A forecaster in the interface of sktime (extra `sktime`)."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from forecast.api import fit
from forecast.system.errors import ConfigError, NotInstalled

try:
    from sktime.forecasting.base import (  # pyright: ignore[reportMissingImports]
        BaseForecaster,
        ForecastingHorizon,
    )
except ModuleNotFoundError as error:
    package = (error.name or "sktime").partition(".")[0]
    raise NotInstalled("forecast.adapters.sktime_forecaster", "sktime", package) from None

FIRST_DATE = pd.Timestamp("2000-01-01")
"""Date of step 0 of an index without dates."""


class InformerForecaster(BaseForecaster):
    """Trains with `forecast.fit` and `refit=full`, and forecasts `y` from its past and from `X`, which is known
    ahead (future covariates).

    `update` adds rows to those that `predict` reads; with `update_params`, it trains anew on all of them. A step of an
    index without dates counts as a day. Each training writes a run folder below the working directory.

    Args:
        pred_len: steps that the model forecasts at once. Beyond it, the model reads its own forecasts, and needs `X`
            for a multiple of it. None: the last step of `fh`, which `fit` then needs.
        seq_len: rows that the model reads. None: `forecast.check` suggests it, and the settings of training.
        overrides: other settings as on the command line, such as `["attention=linear", "trainer.max_epochs=3"]`.

    Raises:
        ConfigError, DataError: see `forecast.fit`. They are ValueErrors.

    Examples:
        >>> from sktime.datasets import load_airline
        >>> from forecast.adapters.sktime_forecaster import InformerForecaster
        >>> forecaster = InformerForecaster(pred_len=12)  # doctest: +SKIP
        >>> forecaster.fit(load_airline()).predict(fh=[1, 2, 12])  # doctest: +SKIP
    """

    _tags = {  # noqa: RUF012
        "capability:multivariate": True,
        "capability:insample": False,
        "capability:missing_values": True,
        "capability:non_contiguous_X": False,
        "capability:update": True,
        "requires-fh-in-fit": False,
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
    }

    def __init__(
        self, pred_len: int | None = None, seq_len: int | None = None, overrides: Sequence[str] = ()
    ) -> None:
        self.pred_len, self.seq_len, self.overrides = pred_len, seq_len, overrides
        super().__init__()

    def _fit(
        self, y: pd.DataFrame, X: pd.DataFrame | None, fh: ForecastingHorizon | None
    ) -> "InformerForecaster":
        if self.pred_len is not None:
            self._pred_len = self.pred_len
        elif fh is not None:
            self._pred_len = int(fh.to_relative(self.cutoff)[-1])
        else:
            raise ConfigError(
                "give fit the steps to forecast (fh), or InformerForecaster the largest (pred_len)"
            )
        self._columns, self._covariates = y.columns, [] if X is None else [*to_table(X, "X_")]
        self._rows = join(y, X)
        return self._train()

    def _train(self) -> "InformerForecaster":
        """Train on the rows."""
        lengths: dict[str, Any] = {"pred_len": self._pred_len}
        lengths |= {"seq_len": self.seq_len} if self.seq_len else {}
        self.model_ = fit(
            self._rows,
            future_covariates=self._covariates,
            suggest=self.seq_len is None,
            overrides=["refit=full", "logger=[]", "pictures=false", *self.overrides],
            **lengths,
        )
        return self

    def _update(
        self, y: pd.DataFrame, X: pd.DataFrame | None = None, update_params: bool = True
    ) -> "InformerForecaster":
        rows = pd.concat([self._rows, join(y, X)])
        self._rows = rows.loc[~rows.index.duplicated(keep="last")].sort_index()
        return self._train() if update_params else self

    def _predict(self, fh: ForecastingHorizon, X: pd.DataFrame | None) -> pd.DataFrame:
        steps = fh.to_relative(self.cutoff).to_numpy().astype(int)
        targets = self._rows.drop(columns=self._covariates)
        past = self._rows.loc[: targets.dropna(how="all").index[-1]]
        ahead = self._rows.iloc[len(past) :]  # rows without a value at the end are forecast too
        future = None
        if self._covariates:
            given = [ahead[self._covariates], *([] if X is None else [to_table(X, "X_")])]
            future = pd.concat(given).loc[lambda rows: rows.index > past.index[-1]]
        found = self.model_.predict(past, future=future, horizon=int(steps.max()) + len(ahead))
        chosen = found[[*targets]].to_numpy()[steps + len(ahead) - 1]
        return pd.DataFrame(chosen, index=fh.to_absolute_index(self.cutoff), columns=self._columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """The parameters of the tests of sktime: small models."""
        small = [f"model.{each}" for each in ("d_model=8", "n_heads=2", "d_ff=8", "patch_len=1")]
        overrides = ["data.split=[0.6,0.2,0.2]", "trainer.max_epochs=1", *small]
        lengths = {"pred_len": 1, "seq_len": 3}
        return [lengths | {"overrides": [*overrides, *more]} for more in ([], ["attention=linear"])]


def join(y: pd.DataFrame, X: pd.DataFrame | None) -> pd.DataFrame:
    """The rows of `y` with their covariates, as `forecast.fit` takes them."""
    return to_table(y) if X is None else to_table(y).join(to_table(X, "X_"))


def to_table(rows: pd.DataFrame, prefix: str = "") -> pd.DataFrame:
    """The rows with dates as their index, and with names of columns that are text."""
    index = rows.index
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    elif not isinstance(index, pd.DatetimeIndex):
        index = pd.DatetimeIndex(FIRST_DATE + pd.to_timedelta(index, unit="D"))
    return rows.set_axis(index).rename(columns=lambda name: f"{prefix}{name}")
