"""Options by column: transforms, bounds with the check that all values are within them, and fills of missing values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forecast.data.panel import Panel, by_column
from forecast.data.row_ranges import StoredValues, pieces_of
from forecast.system.errors import ConfigError, DataError, check_choice, check_count

NONE, LOG1P, BOXCOX, ASINH = TRANSFORMS = ("none", "log1p", "boxcox", "asinh")
AUTO = "auto"
"""`data.transform=auto`: training chooses (`forecast.training.build`); until then there is no transform."""

LOWER_LIMITS = {LOG1P: -1.0, BOXCOX: 0.0}
"""The number that all values must exceed, of the transforms that do not take every number."""

FILLS = ("auto", "linear", "previous", "seasonal", "zero", "none")

FillSetting = str | Mapping[str, str]
BoundSetting = int | float | Mapping[str, int | float]
TransformSetting = str | Mapping[str, str]


@dataclass(frozen=True)
class Domain:
    """The transform of each column, and the smallest and largest value of its forecasts, in original units.

    A column without a bound has −∞ or ∞.
    """

    transforms: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @classmethod
    def unlimited(cls, n_columns: int) -> "Domain":
        """No transform and no bounds."""
        return cls((NONE,) * n_columns, (-math.inf,) * n_columns, (math.inf,) * n_columns)

    @property
    def has_transforms(self) -> bool:
        return any(kind != NONE for kind in self.transforms)

    @property
    def has_bounds(self) -> bool:
        return any(map(math.isfinite, (*self.lower, *self.upper)))

    def select_columns(self, index: Sequence[int]) -> "Domain":
        """The domain of some of the columns."""
        transforms, lower, upper = (tuple(part[i] for i in index) for part in vars(self).values())
        return Domain(transforms, lower, upper)

    def describe(self, columns: Sequence[str]) -> str:
        """The transform and the bounds in words, by column where they differ; empty if there are none."""
        found: dict[str, list[str]] = {}
        for name, kind, low, high in zip(columns, self.transforms, self.lower, self.upper, strict=True):
            words = [] if kind == NONE else [kind]
            words += [f"at least {low:g}"] if math.isfinite(low) else []
            words += [f"at most {high:g}"] if math.isfinite(high) else []
            found.setdefault(", ".join(words), []).append(name)
        if list(found) == [""]:
            return ""
        if len(found) == 1 and len(columns) > 1:
            return f"all targets {next(iter(found))}"
        return "; ".join(f"{', '.join(names)} {words}" for words, names in found.items() if words)


def check_domain(
    lower: BoundSetting | None, upper: BoundSetting | None, transform: TransformSetting | None
) -> None:
    """Raise ConfigError for a bound that is no finite number, or an unknown transform."""
    for key, setting in {"data.lower": lower, "data.upper": upper}.items():
        for bound in setting.values() if isinstance(setting, Mapping) else [setting]:
            if bound is not None and (
                isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound)
            ):
                raise ConfigError(
                    f"{key}={bound} is not a finite number: write {key}=0 or {key}={{COLUMN:0}}"
                )
    for kind in transform.values() if isinstance(transform, Mapping) else [transform]:
        if kind is not None and transform != AUTO:
            check_choice("data.transform", kind, TRANSFORMS, advice=", or auto for all targets")


def choose_domain(
    columns: Sequence[str],
    targets: Sequence[str],
    lower: BoundSetting | None,
    upper: BoundSetting | None,
    transform: TransformSetting | None,
) -> Domain:
    """The domain of `columns`, among them the targets.

    Bounds are for targets. One transform is for all targets; by column, covariates of the past may have one too.

    Raises:
        ConfigError: a column that is not there, or a lower bound that is not below the upper one.
    """
    low = by_column("data.lower", lower, targets, -math.inf, "target")
    high = by_column("data.upper", upper, targets, math.inf, "target")
    transformed = columns if isinstance(transform, Mapping) else targets
    kinds = by_column("data.transform", None if transform == AUTO else transform, transformed, NONE)
    for name in targets:
        if low[name] >= high[name]:
            raise ConfigError(f"data.lower={low[name]} is not below data.upper={high[name]} (of {name})")
    least = {
        name: 0.0 if kinds.get(name) == BOXCOX else -math.inf for name in columns
    }  # boxcox does not go below 0
    return Domain(
        tuple(kinds.get(name, NONE) for name in columns),
        tuple(float(max(low.get(name, -math.inf), least[name])) for name in columns),
        tuple(float(high.get(name, math.inf)) for name in columns),
    )


def check_not_transformed(transform: TransformSetting | None, future_columns: Sequence[str]) -> None:
    """Raise ConfigError for a transform of a future covariate, which has no forecast to invert."""
    for name in transform if isinstance(transform, Mapping) else ():
        if name in future_columns:
            raise ConfigError(
                f"data.transform names {name}, a future covariate: targets and past covariates have a transform, which "
                "forecasts invert; nothing inverts a future covariate: transform its values in the data"
            )


def check_values(name: str, panel: Panel, domain: Domain) -> None:
    """Raise DataError for the first value outside the bounds of its column, or that its transform does not take.

    Args:
        name: of the data, for the message.
        panel: its columns are those of `domain`.
    """
    values = panel.values
    dtype = values.mapped.dtype.type if isinstance(values, StoredValues) else values.dtype.type
    for i, kind in enumerate(domain.transforms):
        # in the precision of the values: 0.3 in float32 is above 0.3 in float64
        low, high = (float(dtype(bound[i])) for bound in (domain.lower, domain.upper))
        above = LOWER_LIMITS.get(kind, -math.inf)
        if low == above == -math.inf and high == math.inf:
            continue
        is_within = isinstance(values, StoredValues) and not (
            values.minimum[i] < low or values.maximum[i] > high or values.minimum[i] <= above
        )
        for rows in () if is_within else pieces_of(values, panel.starts, panel.stops):
            part = values[rows, i]
            outside = np.flatnonzero((part < low) | (part > high) | (part <= above))  # NaN is within
            if len(outside):
                raise _refuse(name, panel, i, rows[outside[:1]], float(part[outside[0]]), kind, low, high)


def _refuse(
    name: str, panel: Panel, column: int, row: np.ndarray, value: float, kind: str, low: float, high: float
) -> DataError:
    where = f"{panel.dates(row)[0]}" + (f" in {panel.ids[panel.series_of(row)][0]}" if panel.has_ids else "")
    if value <= (above := LOWER_LIMITS.get(kind, -math.inf)):
        reason = f"data.transform={kind} takes values above {above:g}: use asinh, which takes every number"
    elif value < low:
        reason = f"below data.lower={low:g}: correct the value, or lower the bound"
    else:
        reason = f"above data.upper={high:g}: correct the value, or raise the bound"
    return DataError(f"{name}: {panel.columns[column]} is {value:g} at {where}, {reason}")


def check_fill(fill: FillSetting | None, limit: int | None) -> None:
    """Raise ConfigError for an unknown method of `data.fill`, or a `data.fill_limit` that is no number of rows."""
    methods = fill.values() if isinstance(fill, Mapping) else [fill]
    for method in methods:
        if method is not None:
            check_choice("data.fill", method, FILLS)
    if limit is not None:
        check_count("data.fill_limit", limit, unit="rows")


def choose_methods(fill: FillSetting | None, columns: Sequence[str]) -> tuple[str, ...]:
    """The method of each column. Raises ConfigError where `fill` names a column that is not there."""
    return tuple(by_column("data.fill", fill, columns, FILLS[0]).values())
