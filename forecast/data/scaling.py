"""The scaling of a panel: scalers of each series and column, fitted to training rows or restored from a checkpoint."""

import warnings
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from forecast.data import scaler
from forecast.data.covariates import Encoding, check_known_as_trained, fit_static, resolve_known_steps
from forecast.data.domain import Domain, check_not_transformed, check_values, choose_domain
from forecast.data.missing import has_values
from forecast.data.panel import Panel
from forecast.data.row_ranges import (
    PerSeries,
    RowRanges,
    RunningStatistics,
    StoredValues,
    Values,
    pieces_of,
    ranges,
    rows_at_once,
    select_columns,
    series_slices,
)
from forecast.data.scaler import Scaler
from forecast.data.source import SCALERS, ScalingOptions
from forecast.system.errors import DataError, check_choice

QUARTILE_ROWS = 1 << 20
"""Most training rows on disk that `robust` takes its quartiles from, evenly spaced."""

PerColumn = Float64[np.ndarray, " columns"]


def center_and_scale(
    kind: str, values: Float[np.ndarray, "rows columns"], columns: Sequence[str]
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from all of these rows; the scale is 0 where a column is constant.

    For one long series this is several times faster than `center_and_scale_by_series`.
    """
    _refuse_empty(np.asarray(np.isnan(values).all(axis=0)), columns)
    values = values.astype(np.float64)
    lowest, highest = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    if kind == "minmax":
        center, scale = lowest, highest - lowest
    elif kind == "robust":
        low, center, high = np.nanpercentile(values, (25, 50, 75), axis=0)
        scale = np.where(high > low, high - low, np.nanstd(values, axis=0))
    else:
        with np.errstate(over="ignore"):  # numbers that are too large are refused once they are scaled
            center, variance = np.nanmean(values, axis=0), np.nanvar(values, axis=0)
            scale = _standard_deviation(center, variance, np.isfinite(values).sum(0))
    return center, np.where(lowest == highest, 0.0, scale)


def center_and_scale_by_series(
    kind: str, rows: Float64[np.ndarray, "rows columns"], lengths: PerSeries
) -> tuple[Float64[np.ndarray, "series columns"], Float64[np.ndarray, "series columns"]]:
    """Center and scale of each series; the scale is 0 where a column is constant."""
    starts = lengths.cumsum() - lengths
    each = np.maximum(np.add.reduceat(np.isfinite(rows), starts, axis=0, dtype=np.int64), 1)
    lowest, highest = np.fmin.reduceat(rows, starts), np.fmax.reduceat(rows, starts)
    if kind == "minmax":
        center, scale = lowest, highest - lowest
    elif kind == "robust":
        series = np.split(rows, starts[1:])
        low, center, high = np.stack([np.nanpercentile(one, (25, 50, 75), axis=0) for one in series], axis=1)
        deviations = np.stack([np.nanstd(one, axis=0) for one in series])
        scale = np.where(high > low, high - low, deviations)
    else:
        with np.errstate(over="ignore"):  # numbers that are too large are refused once they are scaled
            center = np.add.reduceat(np.nan_to_num(rows), starts) / each
            squares = np.nan_to_num((rows - np.repeat(center, lengths, axis=0)) ** 2)
            variance = np.add.reduceat(squares, starts) / each
            scale = _standard_deviation(center, variance, each)
    return np.nan_to_num(center), np.nan_to_num(np.where(lowest == highest, 0.0, scale))


def center_and_scale_on_disk(
    kind: str, values: StoredValues, rows: RowRanges, columns: Sequence[str], transformed: Scaler
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from rows of some series on disk, of which a block is in memory at a time.

    The scale is 0 where a column is constant. `transformed` has the transforms of these series.
    """
    if kind == "robust":
        every = -(-int((rows.stop - rows.first).sum()) // QUARTILE_ROWS)
        sample = np.concatenate([block[::every] for block in pieces_of(values, *rows)])
        return center_and_scale(
            kind, transformed.apply_transforms(values[sample], rows.series_of(sample)), columns
        )
    found = RunningStatistics(len(columns))
    for numbers in pieces_of(values, *rows):
        block = values[numbers]
        refuse_damaged(values, block)
        found.add(transformed.apply_transforms(block, rows.series_of(numbers)))
    _refuse_empty(found.count == 0, columns)
    if kind == "standard":
        center, scale = found.mean, np.sqrt(found.squares / found.count)
    else:
        center, scale = found.lowest, found.highest - found.lowest
    return center, np.where(found.lowest == found.highest, 0.0, scale)


def refuse_damaged(values: StoredValues, block: Float[np.ndarray, "rows columns"]) -> None:
    """Raise DataError for rows of a store with a number that its description excludes."""
    if np.isinf(block).any() or (np.isnan(block) & (np.array(values.missing) == 0)).any():
        raise DataError(
            f"{values.file.parent}: a number is not finite: the store is damaged or of another version: convert "
            "again"
        )


def _refuse_empty(empty: Bool[np.ndarray, " columns"], columns: Sequence[str]) -> None:
    """Raise DataError for the first of the columns that are empty in the training rows."""
    if empty.any():
        raise DataError(
            f"no value of {columns[int(empty.argmax())]} in the training rows: leave the column out, or "
            "give another data.split"
        )


def _standard_deviation(
    mean: Float64[np.ndarray, "*shape"],
    variance: Float64[np.ndarray, "*shape"],
    count: Int64[np.ndarray, "*shape"],
) -> Float64[np.ndarray, "*shape"]:
    """The root of a variance; 0 for one that rounding alone can give a constant column, as in scikit-learn."""
    rounding = count * np.finfo(np.float64).eps
    return np.where(variance <= rounding * variance + (rounding * mean) ** 2, 0.0, np.sqrt(variance))


def fit_scaler(
    values: Values,
    columns: Sequence[str],
    first: PerSeries,
    last: PerSeries,
    *,
    kind: str,
    by: str = "series",
    others: Scaler | None = None,
    domain: Domain | None = None,
) -> Scaler:
    """A scaler fitted to the rows first[s] … last[s] − 1 of each series. Missing values (NaN) do not count.

    Args:
        values: the columns to scale, of all rows of a panel.
        columns: their names, for messages.
        first, last: row numbers, see above.
        kind: `standard` (mean and standard deviation), `minmax` (to [0, 1]), `robust` (median and interquartile range,
            or the standard deviation where that range is zero, as for demand that is mostly zero) or `none`.
        by: `series`, each series by its own rows; `all`, every series by the rows of all.
        others: scaler of other series, for columns that are constant.
        domain: the transform of each column, whose parameters are fitted to the same rows; None: no transforms.

    A column that is constant in one of several series is scaled by the median scale of the other series: scaled by 1,
    its first change could be thousands of standard deviations. A column that is constant in all rows is scaled by 1.
    Both warn. Each series has at least one value of each column there.

    Raises:
        ConfigError: another `kind`.
        DataError: a column without a value in these rows.
    """
    check_choice("data.scaler", kind, SCALERS)
    found = _fit_transforms(by, values, first, last, domain or Domain.unlimited(len(columns)))
    if kind == "none" or not columns:
        return found
    if by == "all" or (len(first) == 1 and others is None):
        center, scale = _fit_together(kind, values, first, last, columns, found)
    else:
        known = None if others is None else others.scale
        center, scale = _fit_each(kind, values, first, last, columns, known, found)
    found.center[:], found.scale[:] = torch.from_numpy(center), torch.from_numpy(scale)
    found.error_unit[:] = found.scale
    if found.domain.has_transforms:
        with warnings.catch_warnings(action="ignore"):  # the fit above gave them
            untransformed = None if others is None else Scaler(others.center, others.error_unit)
            plain = fit_scaler(values, columns, first, last, kind=kind, by=by, others=untransformed)
        found.error_unit[:] = plain.scale
    return found


def _fit_transforms(
    by: str,
    values: Values,
    first: PerSeries,
    last: PerSeries,
    domain: Domain,
) -> Scaler:
    """A scaler of center 0 and scale 1, with the transforms fitted to the rows first[s] … last[s] − 1."""
    zeros = torch.zeros(len(first), len(domain.transforms), dtype=torch.float64)
    found = Scaler(zeros, zeros + 1, domain)
    if not set(domain.transforms) & {scaler.BOXCOX, scaler.ASINH}:
        return found
    for s in range(1 if by == "all" else len(first)):
        rows = ranges(first, last) if by == "all" else np.arange(first[s], last[s])
        sample = values[rows[:: len(rows) // scaler.SAMPLED_ROWS + 1]]
        fitted = [scaler.fit(kind, sample[:, i]) for i, kind in enumerate(domain.transforms)]
        own = slice(None) if by == "all" else s
        found.location[own], found.shape[own] = torch.tensor(fitted, dtype=torch.float64).T
    return found


def _fit_together(
    kind: str, values: Values, first: PerSeries, last: PerSeries, columns: Sequence[str], transformed: Scaler
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from the rows of all series."""
    if isinstance(values, StoredValues):
        center, scale = center_and_scale_on_disk(kind, values, RowRanges(first, last), columns, transformed)
    else:
        series = np.repeat(np.arange(len(first)), last - first)
        rows = transformed.apply_transforms(values[ranges(first, last)], series)
        center, scale = center_and_scale(kind, rows, columns)
    names = [name for name, is_constant in zip(columns, scale == 0, strict=True) if is_constant]
    if names:
        warnings.warn(f"constant in the training rows, so scaled by 1: {', '.join(names)}", stacklevel=4)
    return center, np.where(scale == 0, 1.0, scale)


def _fit_each(
    kind: str,
    values: Values,
    first: PerSeries,
    last: PerSeries,
    columns: Sequence[str],
    others: Float64[Tensor, "others columns"] | None,
    transformed: Scaler,
) -> tuple[Float64[np.ndarray, "series columns"], Float64[np.ndarray, "series columns"]]:
    """Center and scale of each series from its own rows."""
    center, scale = np.empty((len(first), len(columns))), np.empty((len(first), len(columns)))
    for some in series_slices(last - first, rows_at_once(values)):
        if isinstance(values, StoredValues) and some.stop - some.start == 1:
            own = RowRanges(first[some], last[some])
            center[some], scale[some] = center_and_scale_on_disk(
                kind, values, own, columns, transformed.of_series(some)
            )
            continue
        series = np.repeat(np.arange(len(first))[some], (last - first)[some])
        block = values[ranges(first[some], last[some])]
        if isinstance(values, StoredValues):
            refuse_damaged(values, block)
        rows = transformed.apply_transforms(block, series).astype(np.float64)
        center[some], scale[some] = center_and_scale_by_series(kind, rows, (last - first)[some])
    constant = scale == 0
    known = scale if others is None else np.concatenate([scale, others.numpy()])
    medians = [np.median(one[one > 0]) if (one > 0).any() else 1.0 for one in known.T]
    if constant.any():
        counts = zip(columns, constant.sum(0).tolist(), strict=True)
        listed = ", ".join(f"{name} in {count:,}" for name, count in counts if count)
        warnings.warn(
            f"constant in the training rows, so scaled by the median scale of the other series: {listed} of "
            f"{len(first):,} series",
            stacklevel=2,
        )
    return center, np.where(constant, medians, scale)


def find_places(panel: Panel, state: dict[str, Any]) -> PerSeries:
    """The number of each series among those with a scale in a checkpoint's `state`; −1 where there is none."""
    place = pd.Index(state["ids"]).get_indexer(panel.ids).astype(np.int64)
    place[(place >= 0) & ~np.array(state["has_scale"])[place]] = -1
    return place


@dataclass(frozen=True)
class PanelScaling:
    """Fits the scalers of the series of a panel, or restores them from a checkpoint.

    Attributes:
        rows: the rows that the scale of each series is fitted to. A series without rows is not scaled.
        indicators: the columns that are indicators of categories, which are not scaled.
        kind, by: see `forecast.data.scaling.fit_scaler`.
    """

    rows: RowRanges
    indicators: Container[str]
    kind: str
    by: str

    @property
    def has_rows(self) -> Bool[np.ndarray, " series"]:
        return self.rows.stop > self.rows.first

    @property
    def has_scale(self) -> Bool[np.ndarray, " series"]:
        """The series that a fit gives a scale: those with rows, or all if they share one scale."""
        return self.has_rows | (self.by == "all")

    def fit(self, values: Values, columns: tuple[str, ...], domain: Domain) -> Scaler:
        """A scaler of these columns with each series fitted to its rows."""
        scaler = self._identity(domain)
        self._fit_series(scaler, np.flatnonzero(self.has_rows), values, columns, others=None)
        return scaler

    def restore(self, saved: Scaler, place: PerSeries, values: Values, columns: tuple[str, ...]) -> Scaler:
        """A scaler of these columns in which series s has the scale of series place[s] of `saved`.

        A series whose place is −1 is fitted to its rows, unless all series have one scale.
        """
        scaler = self._identity(saved.domain)
        if self.by == "all":
            place = np.zeros_like(place)
        known = np.flatnonzero(place >= 0)
        scaler.copy_scales(saved, series=torch.from_numpy(known), source=torch.from_numpy(place[known]))
        new = np.flatnonzero((place < 0) & self.has_rows)
        self._fit_series(scaler, new, values, columns, others=saved)
        return scaler

    def _identity(self, domain: Domain) -> Scaler:
        zeros = torch.zeros(len(self.rows.first), len(domain.transforms), dtype=torch.float64)
        return Scaler(zeros, zeros + 1, domain)

    def _fit_series(
        self,
        scaler: Scaler,
        series: Int64[np.ndarray, " some"],
        values: Values,
        columns: tuple[str, ...],
        *,
        others: Scaler | None,
    ) -> None:
        """Fit some series of a scaler to their rows, in place; `others` scales other series."""
        if not len(series):
            return
        index = [i for i, name in enumerate(columns) if name not in self.indicators]
        if len(index) < len(columns):
            values = select_columns(values, index)
            columns = tuple(columns[i] for i in index)
            others = None if others is None else others.select_columns(index)
        fitted = fit_scaler(
            values, columns, self.rows.first[series], self.rows.stop[series],
            kind=self.kind, by=self.by, others=others, domain=scaler.domain.select_columns(index),
        )  # fmt: skip
        source = np.arange(len(series))
        if self.by == "all":
            series, source = np.arange(len(scaler)), np.zeros(len(scaler), dtype=np.int64)
        scaler.copy_scales(
            fitted, series=torch.from_numpy(series), source=torch.from_numpy(source), columns=index
        )


@dataclass(frozen=True)
class Scales:
    """The scales of the values, the future covariates and the static columns of a panel.

    Attributes:
        scaler, future_scaler: of the values and of the future covariates.
        static: how static columns are encoded.
        known_steps: steps for which each future covariate is known after a forecast origin; None: over any horizon.
        timezone: zone of the training data; the calendar features are of its local times.
        place: the number of each series in the checkpoint that the scales come from, −1 if it is not there.
        has_scale: the series that have a scale: those in the checkpoint, or with values in the rows of the fit.
    """

    scaler: Scaler
    future_scaler: Scaler
    static: Encoding
    known_steps: list[int | None]
    timezone: str | None
    place: PerSeries
    has_scale: Bool[np.ndarray, " series"]

    @classmethod
    def fit(
        cls, name: str, panel: Panel, rows: RowRanges, options: ScalingOptions, targets: Sequence[str]
    ) -> "Scales":
        """Fit the scales to these rows of each series; `name` is for messages.

        Raises:
            ConfigError: an option that names no column.
            DataError: a value outside the bounds of its column, or that its transform does not take.
        """
        known_steps = resolve_known_steps(options.known_steps, panel)
        check_not_transformed(options.transform, panel.future_columns)
        domain = choose_domain(panel.columns, targets, options.lower, options.upper, options.transform)
        check_values(name, panel, domain)
        scaling = _make_scaling(panel, rows, options)
        unlimited = Domain.unlimited(len(panel.future_covariates))
        return cls(
            scaler=scaling.fit(panel.values, panel.columns, domain),
            future_scaler=scaling.fit(_measured_future(panel), panel.future_covariates, unlimited),
            static=fit_static(name, panel.static),
            known_steps=known_steps,
            timezone=panel.utc_offset.timezone,
            place=np.full(len(panel), -1),
            has_scale=scaling.has_scale,
        )

    @classmethod
    def restore(
        cls, name: str, panel: Panel, state: dict[str, Any], rows: RowRanges, options: ScalingOptions
    ) -> "Scales":
        """Take the scales from a checkpoint; a series that it does not have is fitted to these rows.

        `state` is the state of the data module in the checkpoint; `name` is for messages.

        Raises:
            ConfigError: an option that names no column.
            DataError: other future covariates than the checkpoint's, or a value that `fit` refuses.
        """
        known_steps = resolve_known_steps(options.known_steps, panel)
        check_known_as_trained(name, panel, known_steps, state)
        saved, saved_future = (Scaler.from_state_dict(state[key]) for key in ("scaler", "future_scaler"))
        check_values(name, panel, saved.domain)
        scaling, place = _make_scaling(panel, rows, options), find_places(panel, state)
        return cls(
            scaler=scaling.restore(saved, place, panel.values, panel.columns),
            future_scaler=scaling.restore(
                saved_future, place, _measured_future(panel), panel.future_covariates
            ),
            static=state["static"],
            known_steps=known_steps,
            timezone=state.get("timezone"),
            place=place,
            has_scale=(place >= 0) | scaling.has_scale,
        )


def _make_scaling(panel: Panel, rows: RowRanges, options: ScalingOptions) -> PanelScaling:
    """The fit of the scalers to these rows. Among several series, one without a value of a column has no rows."""
    first, last = rows
    if len(panel) > 1:
        last = np.where(has_values(panel.values, first, last), last, first)
    return PanelScaling(RowRanges(first, last), panel.indicators, options.scaler, options.scale_by)


def _measured_future(panel: Panel) -> Values:
    """The future covariates as they were measured."""
    if panel.future is None:
        return np.empty((len(panel.values), 0))
    return select_columns(panel.future, range(len(panel.future_covariates)))
