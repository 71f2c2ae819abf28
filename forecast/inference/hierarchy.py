"""Forecasts with sums over the series of a hierarchy: the total, its parts, and so on down to the series.

The forecast of a sum is the sum of the forecasts (bottom-up). Its bounds are quantiles of the sums of joint sample
paths. Forecasts of the summed histories are not reconciled with it (MinT, Wickramasuriya, Athanasopoulos and Hyndman
2019): a linear model that all series share forecasts the sum of its forecasts for a sum, so that nothing is left to
reconcile, and the other parts of the models gain too little (docs/series.md).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int64

from forecast.data import Panel
from forecast.data.files.columns import SEPARATOR, take_parts
from forecast.data.files.text import quote
from forecast.data.panel import name_some
from forecast.evaluation.sample_paths import MAX_RANKS, MIN_TRAJECTORIES
from forecast.evaluation.scores import FEW_HORIZONS, Level, bounds
from forecast.inference.forecast import Forecast
from forecast.inference.forecasters import PointForecaster
from forecast.inference.predict import predict
from forecast.system.errors import ConfigError, DataError, check_count

TOTAL = "total"  # what an id column holds where a sum is over all its values

MIN_PATHS, DEFAULT_PATHS = 200, 500
"""Fewest sample paths whose quantiles are bounds of sums, and how many are drawn without `samples`."""

Members = dict[str, Int64[np.ndarray, " members"]]
"""The numbers of the series of each sum, by the id of the sum, from the top down."""


def predict_sums(
    forecaster: PointForecaster,
    panel: Panel,
    *,
    hierarchy: str | Sequence[str] | None = None,
    levels: Sequence[Level] = (),
    samples: int | None = None,
    **options: Any,
) -> Forecast:
    """Forecast each series as `predict` does, and the sums over series before them.

    `hierarchy`: static covariates, or columns of the id, from the top down. `[]`: the total alone. None: no sums.

    Raises:
        ConfigError: another name, an id that names a sum and a series, or too few samples for bounds of sums.
        DataError: the forecasts begin on different dates, or have no joint sample paths; or see `predict`.
    """
    if hierarchy is None:
        return predict(forecaster, panel, levels=levels, samples=samples, **options)
    names = [hierarchy] if isinstance(hierarchy, str) else hierarchy
    if not isinstance(names, Sequence) or len({*map(str, names)}) < len(names):
        raise ConfigError(
            f"hierarchy={hierarchy}: name static covariates or id columns, each once, as in hierarchy=[state,region]"
        )
    if not panel.has_ids:
        raise ConfigError("hierarchy: the data are one series; sums over series need data=long in training")
    if samples is not None and levels:
        check_count("samples", samples, least=MIN_PATHS, advice=" for bounds of sums; levels=[] has none")
    n_paths = samples or (DEFAULT_PATHS if levels else None)
    found = predict(forecaster, panel, levels=levels, samples=n_paths, **options)
    check_summable(found)
    return add_sums(found, [*map(str, names)], keep_paths=samples is not None)


def check_summable(found: Forecast) -> None:
    """Raise DataError unless the forecasts of the series begin on one date, with joint sample paths if with any."""
    panel, begin = found.panel, found.dates[:, 0]
    if (is_early := begin < begin.max()).any():
        start = panel.utc_offset.shown(pd.DatetimeIndex([begin.max()])).item().isoformat()
        raise DataError(
            f"hierarchy: {int(is_early.sum()):,} of {len(panel):,} series end before the others "
            f"({name_some(panel, is_early)}), and sums need forecasts of the same dates: "
            f"start={start.removesuffix('T00:00:00')} leaves them out"
        )
    if found.paths is not None and not found.is_joint and len(panel) > 1:
        advice = f"{found.new:,} were not trained on: train with them, or leave them out (data.ids)" if found.new else (
            f"train with a validation part (data.split) whose dates with windows of all series hold {FEW_HORIZONS} "
            f"horizons; series × steps × columns may be at most {MAX_RANKS // MIN_TRAJECTORIES:,}"
        )  # fmt: skip
        raise DataError(
            f"hierarchy: bounds of sums need errors of all series on the same dates: {advice}; levels=[] has no bounds"
        )


def find_sums(panel: Panel, hierarchy: Sequence[str]) -> tuple[Members, str]:
    """Find the series of each sum; also describe how many sums each level has. Raises ConfigError."""
    id_columns = str(panel.ids.name).split(SEPARATOR)
    texts, found, counts = [read_groups(panel, name, id_columns) for name in hierarchy], dict[str, list](), []
    given = f"hierarchy=[{','.join(hierarchy)}]"
    sizes = {name: len({*column}) for name, column in zip(hierarchy, texts, strict=True)}
    for (below, part), (above, whole) in pairwise(zip(hierarchy, texts, strict=True)):
        is_nested = sizes[below] == len({*zip(part, whole, strict=True)})  # each group below is in one above
        if 1 < sizes[above] < sizes[below] and is_nested:
            order = ",".join(sorted((name for name in sizes if sizes[name] < len(panel)), key=sizes.__getitem__))
            raise ConfigError(f"{given}: each {below} has one {above}, which is above it: write hierarchy=[{order}]")
    for depth in range(len(hierarchy) + 1):
        groups: dict[tuple[str, ...], list[int]] = {}
        for number in range(len(panel)):
            groups.setdefault(tuple(column[number] for column in texts[:depth]), []).append(number)
        for group, members in groups.items():
            label = name_sum(dict(zip(hierarchy, group, strict=False)), id_columns)
            if label in found or label in panel.ids:
                advice = f"leave out {hierarchy[depth - 1] if depth else 'that series'}"
                raise ConfigError(f"{given}: a sum has the id {quote(label)} of another sum or of a series: {advice}")
            found[label] = members
        counts.append(f"{len(groups):,} by {hierarchy[depth - 1]}" if depth else TOTAL)
    members = {label: np.array(numbers) for label, numbers in found.items()}
    return members, f"{', '.join(counts)}, of {len(panel):,} series"


def read_groups(panel: Panel, name: str, id_columns: Sequence[str]) -> list[str]:
    """The texts of a static covariate or of an id column, of each series. Raises ConfigError for another name."""
    if name in id_columns:
        return [*map(str, take_parts(panel.ids, id_columns, [name]))]
    if name not in panel.static:
        known = ", ".join([*map(str, panel.static), *(id_columns if len(id_columns) > 1 else ())])
        raise ConfigError(
            f"hierarchy: {quote(name)} is neither a static covariate of the model (data.static_covariates) nor one of "
            f"several id columns; there are: {known or 'none'}"
        )
    texts = panel.static[name].astype(object).fillna("missing")
    return [f"{text:.15g}" if isinstance(text, float) else str(text) for text in texts]


def name_sum(groups: dict[str, str], id_columns: Sequence[str]) -> str:
    """The id of a sum: an id column without a group is `total`, followed by static covariates, as in `total:north`."""
    rest = ":".join([TOTAL, *(text for name, text in groups.items() if name not in id_columns)])
    return SEPARATOR.join(groups.get(name, rest) for name in id_columns)


def add_sums(found: Forecast, hierarchy: Sequence[str], *, keep_paths: bool) -> Forecast:
    """The forecast with sums before the series; the history of a sum begins where all its series have begun."""
    sums, description = find_sums(found.panel, hierarchy)

    def add(values: np.ndarray, reduce: Any = np.sum) -> np.ndarray:
        return np.concatenate([[reduce(values[members], axis=0) for members in sums.values()], values])

    low, high = {}, {}
    paths = None if found.paths is None else add(found.paths)
    if paths is not None:
        for level in found.low:
            below, above = np.quantile(paths[: len(sums)], bounds(level), axis=-1)
            low[level] = np.concatenate([below, found.low[level]])
            high[level] = np.concatenate([above, found.high[level]])
        description += f"; bounds from {paths.shape[-1]:,} sample paths, {found.order}"
    return replace(
        found,
        panel=add_histories(found.panel, sums),
        dates=add(found.dates, np.min),
        values=add(found.values),
        low=low,
        high=high,
        truth=add(found.truth),
        paths=paths if keep_paths else None,
        rows_before=None if found.rows_before is None else add(found.rows_before, np.min),
        n_sums=len(sums),
        sums=description,
    )


def add_histories(panel: Panel, sums: Members) -> Panel:
    """The panel in memory, whose series end on the same date, with sums before the series."""
    least = np.array([panel.lengths[members].min() for members in sums.values()])
    rows = [
        panel.ends[members][:, None] + np.arange(-length, 0)
        for members, length in zip(sums.values(), least, strict=True)
    ]
    values = np.concatenate([*(panel.values[each].sum(axis=0) for each in rows), np.asarray(panel.values)])
    lengths, ids = np.concatenate([least, panel.lengths]), pd.Index([*sums, *panel.ids], name=panel.ids.name)
    ends, end = lengths.cumsum(), panel.grid_starts[0] + panel.lengths[0]
    return replace(
        panel, ids=ids, grid_starts=end - lengths, starts=ends - lengths, ends=ends, stops=ends, values=values,
        static=pd.DataFrame(index=ids), future_covariates=(), as_of={}, future=None,
    )  # fmt: skip
