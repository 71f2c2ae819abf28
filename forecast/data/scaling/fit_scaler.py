"""The scaler of each series and column, from statistics of its training rows."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from forecast.data.options import SCALERS
from forecast.data.row_ranges import PerSeries, RowRanges, ranges, series_slices
from forecast.data.scaling import transforms
from forecast.data.scaling.domain import Domain
from forecast.data.scaling.scaler import Scaler
from forecast.data.scaling.statistics import (
    PerColumn,
    center_and_scale,
    center_and_scale_by_series,
    center_and_scale_on_disk,
    refuse_damaged,
)
from forecast.data.stored_values import StoredValues, Values, rows_at_once
from forecast.system.checks import check_choice


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
    if not set(domain.transforms) & {transforms.BOXCOX, transforms.ASINH}:
        return found
    for s in range(1 if by == "all" else len(first)):
        rows = ranges(first, last) if by == "all" else np.arange(first[s], last[s])
        sample = values[rows[:: len(rows) // transforms.SAMPLED_ROWS + 1]]
        fitted = [transforms.fit(kind, sample[:, i]) for i, kind in enumerate(domain.transforms)]
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
