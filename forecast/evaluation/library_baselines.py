"""Baselines of other libraries, which forecast the origins of a backtest beside the model.

A library reads and returns frames in the layout that Nixtla's libraries, Chronos and others share: one row for each
series and date, with columns `unique_id`, `ds`, `y`, and one for each future covariate. Each origin and target is one
series.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from forecast.data import DataModule
from forecast.data.time_features import choose_evenly_spaced
from forecast.evaluation.measurement import Origins
from forecast.evaluation.scores import DECILES
from forecast.system.errors import ConfigError, NotInstalled, user_path
from forecast.system.progress import status

CONTEXT = 1024  # rows before an origin that a library reads; more where the model reads more
MAX_TRAINING_ROWS = 1 << 20  # on which a library trains, the last ones of each series before the first origin
ORIGINS_AT_ONCE = 1024  # whose contexts are in memory at once


class Task(NamedTuple):
    """What a library may know before it forecasts."""

    known: pd.DataFrame  # the rows before the first origin
    covariates: Sequence[str]  # names of the future covariates, columns of every frame
    freq: str  # step between rows as a pandas offset alias
    season: int  # in rows
    pred_len: int
    checkpoint: str  # Hugging Face model or folder of a pretrained model


Forecast = Callable[[pd.DataFrame, pd.DataFrame], ArrayLike]
"""Forecasts all series of a frame, given one of the covariates at the steps to forecast, without `y`.

It returns `pred_len` values for each series, in the order of the frames: an array or a column of point forecasts, or a
frame in which the columns 0.1, 0.2, …, 0.9 are the deciles.
"""

Values = Float64[np.ndarray, "origins pred_len n_targets quantiles"]
LibraryForecasts = dict[str, Values]
"""In original units, within the bounds of the columns: the deciles, or the point forecast as the only quantile."""


def make_lightgbm(task: Task) -> Forecast:
    """Fit one LightGBM for all series, on lags and the calendar, which forecasts step by step."""
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast
    from mlforecast.target_transforms import LocalStandardScaler

    shortest = int(task.known["unique_id"].value_counts().min())
    lags = {*range(1, task.season + 1), 2 * task.season, 7 * task.season}
    trees = LGBMRegressor(
        n_estimators=300, learning_rate=0.05, random_state=0, n_jobs=torch.get_num_threads(), verbosity=-1
    )
    model = MLForecast(
        [trees],  # type: ignore[reportArgumentType]
        freq=task.freq,
        lags=sorted(lag for lag in lags if lag <= max(1, min(shortest, CONTEXT) // 2)),
        date_features=["hour", "dayofweek", "month", "dayofyear"],
        target_transforms=[LocalStandardScaler()],
    )
    model.fit(task.known, static_features=[])

    def forecast(history: pd.DataFrame, future: pd.DataFrame) -> ArrayLike:
        known = future if task.covariates else None
        return model.predict(task.pred_len, new_df=history, X_df=known).iloc[:, -1]

    return forecast


def make_chronos(task: Task) -> Forecast:
    """Load a pretrained Chronos (Ansari et al. 2025, Chronos-2), which reads the covariates and is not trained."""
    from chronos import BaseChronosPipeline

    try:
        pipeline = BaseChronosPipeline.from_pretrained(str(user_path(task.checkpoint)))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"chronos={task.checkpoint}: no model could be loaded ({str(error).splitlines()[0]}): give the folder of a "
            "downloaded one"
        ) from error

    def forecast(history: pd.DataFrame, future: pd.DataFrame) -> ArrayLike:
        return pipeline.predict_df(
            history, future_df=future if task.covariates else None, id_column="unique_id", timestamp_column="ds",
            target="y", prediction_length=task.pred_len, quantile_levels=[*DECILES], freq=task.freq,
        )  # fmt: skip

    return forecast


MADE = {"lightgbm": make_lightgbm, "chronos": make_chronos}


def find_library_baseline(name: str) -> Callable[[Task], Forecast]:
    """Return the function that makes a baseline: one of this module, or one of the user's, as `module.function`."""
    if name in MADE:
        return MADE[name]
    module, _, function = name.rpartition(".")
    if not module:
        raise ConfigError(
            f"baselines=[{name}]: not one of {', '.join(MADE)}, nor a function of yours as module.function"
        )
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"baselines=[{name}]: {error}") from error


def forecast_with_libraries(
    names: Sequence[str], data: DataModule, origins: Origins, checkpoint: str
) -> LibraryForecasts:
    """Forecast from all origins with each of these baselines, in original units.

    A missing value, of which few libraries know, is interpolated between its neighbours.

    Raises:
        ConfigError: an unknown baseline, rows that are not evenly spaced, or a result of another size.
        NotInstalled: the package of a baseline is missing.
    """
    if not names:
        return {}
    panel = data.panel
    if panel.calendar is not None:
        raise ConfigError(
            f"baselines=[{','.join(names)}]: other libraries forecast evenly spaced rows only, and {data.name} has "
            f"rows {panel.describe_step()}: leave them out"
        )
    known, covariates = tabulate_known(data, origins), name_covariates(data)
    task = Task(known, covariates, panel.freq, data.season, data.pred_len, checkpoint)
    makers = {name: find_library_baseline(name) for name in names}
    forecasters = {name: make_library_baseline(name, make, task) for name, make in makers.items()}
    starts = range(ORIGINS_AT_ONCE, len(origins), ORIGINS_AT_ONCE)
    parts = [origins.take(chosen) for chosen in np.split(np.arange(len(origins)), starts)]
    found = {}
    for name, forecast in forecasters.items():
        with status(f"Forecasting with {name}"):
            found[name] = np.concatenate([forecast_origins(name, forecast, data, part) for part in parts])
    return found


def make_library_baseline(name: str, make: Callable[[Task], Forecast], task: Task) -> Forecast:
    """Fit or load a baseline. Raises NotInstalled if a package of one of this module is missing."""
    try:
        with status(f"Preparing {name}"):
            return make(task)
    except ImportError as error:
        if name in MADE:
            raise NotInstalled(f"baselines=[{name}]", "baselines", str(error.name)) from error
        raise ConfigError(f"baselines=[{name}]: {error}") from error


def forecast_origins(name: str, forecast: Forecast, data: DataModule, origins: Origins) -> Values:
    context = max(CONTEXT, data.seq_len)
    history = tabulate_rows(data, origins.rows, np.arange(-context, 0), origins.series)
    future = tabulate_rows(data, origins.rows, np.arange(data.pred_len), origins.series)
    found = forecast(history, future)
    found = select_deciles(name, found) if isinstance(found, pd.DataFrame) else np.reshape(found, (-1, 1))
    values, n_series = np.asarray(found, dtype=np.float64), len(origins) * data.n_targets
    if len(values) != n_series * data.pred_len:
        raise ConfigError(
            f"baselines=[{name}]: {len(values):,} values in place of {data.pred_len} for each of {n_series:,} series"
        )
    domain = data.target_scaler.domain
    low, high = (np.array(bound)[:, None] for bound in (domain.lower, domain.upper))
    return values.reshape(len(origins), data.n_targets, data.pred_len, -1).swapaxes(1, 2).clip(low, high)


def select_deciles(name: str, found: pd.DataFrame) -> pd.DataFrame:
    """The deciles that a baseline forecast. Raises ConfigError for a frame without them."""
    found, deciles = found.rename(columns=str), [*map(str, DECILES)]
    if missing := [decile for decile in deciles if decile not in found]:
        without = f"a frame without the deciles {', '.join(missing)} as columns"
        raise ConfigError(f"baselines=[{name}]: {without}; return point forecasts as a column, not a frame")
    return found.loc[:, deciles]


def tabulate_known(data: DataModule, origins: Origins) -> pd.DataFrame:
    """The last rows of each series before the first origin of any series, of at most `MAX_TRAINING_ROWS` in all."""
    panel, cut = data.panel, int(origins.positions.min())
    stops = np.minimum(panel.ends, panel.starts + cut - panel.grid_starts)
    series, most = np.flatnonzero(stops - panel.starts >= data.seq_len), MAX_TRAINING_ROWS // CONTEXT
    series = series[choose_evenly_spaced(len(series), max(1, most // data.n_targets))]
    longest = int((stops - panel.starts)[series].max())
    rows = min(longest, MAX_TRAINING_ROWS // (len(series) * data.n_targets))
    return tabulate_rows(data, stops[series], np.arange(-rows, 0), series)


def tabulate_rows(
    data: DataModule, rows: Int64[np.ndarray, " n"], steps: Int64[np.ndarray, " steps"], series: Int64[np.ndarray, " n"]
) -> pd.DataFrame:
    """A frame of the rows at these steps from each of `rows`, with one series for each of these and each target.

    Steps before the first row of a series are left out. From step 0 on, there is no `y`, and the covariates have the
    values that are known in advance.
    """
    panel, is_ahead = data.panel, steps[0] >= 0
    first = panel.starts[series][:, None]
    place = np.maximum(rows[:, None] + steps, first)  # (n, steps)
    shape = (len(rows), data.n_targets, len(steps))

    def of_each_target(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values[:, None], shape).ravel()

    columns = {
        "unique_id": np.arange(shape[0] * shape[1]).repeat(len(steps)),
        "ds": of_each_target(panel.dates(place.ravel()).to_numpy().reshape(place.shape)),
    }
    if not is_ahead:
        targets = [panel.columns.index(name) for name in data.target_columns]
        columns["y"] = panel.values[place][..., targets].astype(np.float64).swapaxes(1, 2).ravel()
    if panel.future is not None:
        covariates = panel.future[place].astype(np.float64)
        read = panel.ahead_index if is_ahead else range(len(panel.future_covariates))
        for name, column in zip(name_covariates(data), read, strict=True):
            columns[name] = of_each_target(covariates[..., column])
    frame = pd.DataFrame(columns).loc[of_each_target(rows[:, None] + steps >= first)]
    return fill_gaps(frame.reset_index(drop=True))


def name_covariates(data: DataModule) -> list[str]:
    """Names of the future covariates in frames, different from those of features of a library such as `month`."""
    return [f"covariate_{number}" for number in range(1, 1 + len(data.panel.future_covariates))]


def fill_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """Interpolate the missing values of each series; 0 where it has none at all."""
    for name in frame.columns[frame.isna().any()]:
        by_series = frame.groupby("unique_id")[name]
        filled = by_series.transform(lambda values: values.interpolate(limit_direction="both"))
        frame[name] = filled.fillna(0.0)
    return frame
