"""The base class of data sources, and the options of a data module: bounds, transforms, fills, scaling, windows."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from forecast.data.covariates import KnownSteps, check_known_steps
from forecast.data.panel import Panel, by_column
from forecast.data.row_ranges import StoredValues, pieces_of
from forecast.data.split import Split, check_split
from forecast.data.time_features import find_holidays
from forecast.system.errors import ConfigError, DataError, check_choice, check_count
from forecast.system.formatting import read_mapping
from forecast.system.location import Location

AnySource = TypeVar("AnySource", bound="Source")


class Source:
    """The origin of a panel: a file, a folder, a DataFrame or a simulation.

    Attributes:
        path: the file or folder; None for generated data and DataFrames.
        absent: the columns of `with_optional` that the last `read` did not find.
        without_role: the columns of a table that the last `read` left out because no option names them.
    """

    path: Location | None
    absent: frozenset[str] = frozenset()
    without_role: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Download what is missing, in one process; nothing by default."""

    def read(self) -> Panel:
        """The panel, in original units."""
        raise NotImplementedError

    def with_optional(self: AnySource, columns: Set[str]) -> AnySource:
        """The same source, in which these columns may be absent; by default no column may."""
        return self


FEATURES = ("M", "S", "MS")
SCALERS = ("standard", "minmax", "robust", "none")
SCALE_BY = ("series", "all")
NONE, LOG1P, ASINH = TRANSFORMS = ("none", "log1p", "asinh")
AUTO = "auto"
"""Of `data.transform`: training chooses (`forecast.training.build`); until then there is no transform."""

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
            words = [kind] * (kind != NONE)
            words += [f"at least {low:g}"] * math.isfinite(low) + [f"at most {high:g}"] * math.isfinite(high)
            found.setdefault(", ".join(words), []).append(name)
        if len(found) == 1 and len(columns) > 1:
            return f"all targets {next(iter(found))}" if any(found) else ""
        return "; ".join(f"{', '.join(names)} {words}" for words, names in found.items() if words)


def choose_domain(columns: Sequence[str], targets: Sequence[str], options: "ScalingOptions") -> Domain:
    """The domain of `columns`, among them the targets.

    Bounds are for targets. One transform is for all targets; by column, covariates of the past may have one too.
    Raises ConfigError for a column that is not there, or a lower bound that is not below the upper one.
    """
    transform = options.transform
    low = by_column("data.lower", options.lower, targets, -math.inf, "target")
    high = by_column("data.upper", options.upper, targets, math.inf, "target")
    transformed = columns if isinstance(transform, Mapping) else targets
    kinds = by_column("data.transform", None if transform == AUTO else transform, transformed, NONE)
    for name in targets:
        if low[name] >= high[name]:
            raise ConfigError(f"data.lower={low[name]} is not below data.upper={high[name]} (of {name})")
    return Domain(
        tuple(kinds.get(name, NONE) for name in columns),
        tuple(float(low.get(name, -math.inf)) for name in columns),
        tuple(float(high.get(name, math.inf)) for name in columns),
    )


def check_values(name: str, panel: Panel, domain: Domain) -> None:
    """Raise DataError for the first value outside the bounds of its column, or that its transform does not take.

    The columns of the panel are those of `domain`; the message begins with `name`.
    """
    values = panel.values
    dtype = values.mapped.dtype.type if isinstance(values, StoredValues) else values.dtype.type
    for i, kind in enumerate(domain.transforms):
        # in the precision of the values: 0.3 in float32 is above 0.3 in float64
        low, high = (float(dtype(bound[i])) for bound in (domain.lower, domain.upper))
        above = -1.0 if kind == LOG1P else -math.inf
        least, most = -math.inf, math.inf  # of the column, as far as they are known
        if isinstance(values, StoredValues):
            least, most = values.minimum[i], values.maximum[i]
        if low <= least and most <= high and (above < least or above == -math.inf):
            continue
        for rows in pieces_of(values, panel.starts, panel.stops):
            part = values[rows, i]
            outside = np.flatnonzero((part < low) | (part > high) | (part <= above))  # NaN is within
            if not len(outside):
                continue
            row, value = rows[outside[:1]], float(part[outside[0]])
            series = f" in {panel.ids[panel.series_of(row)][0]}" if panel.has_ids else ""
            reason = f"above data.upper={high:g}: correct the value, or raise the bound"
            if value <= above:
                reason = "data.transform=log1p takes values above -1: use asinh, which takes every number"
            elif value < low:
                reason = f"below data.lower={low:g}: correct the value, or lower the bound"
            where = f"at {panel.dates(row)[0]}{series}"
            raise DataError(f"{name}: {panel.columns[i]} is {value:g} {where}, {reason}")


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """Options of scaling a panel and of filling its missing values.

    Attributes:
        scaler, scale_by: see `forecast.data.scaler.fit_scaler`.
        holidays: country whose public holidays are a calendar feature.
        fill, fill_limit: how missing values in the past of a window are completed, see `forecast.data.windows`.
        known_steps: steps for which future covariates are known after a forecast origin, one number or by column; None:
            over the whole horizon.
        lower, upper, transform: bounds of the forecasts and transforms before scaling, see `choose_domain`. A
            checkpoint has its own.

    Raises ConfigError for a value that is not allowed.
    """

    scaler: str = "standard"
    scale_by: str = "series"
    holidays: str | None = None
    fill: FillSetting | None = None
    fill_limit: int | None = None
    known_steps: KnownSteps | None = None
    lower: BoundSetting | None = None
    upper: BoundSetting | None = None
    transform: TransformSetting | None = None

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> "ScalingOptions":
        """The scaling options among the settings of a data module."""
        names = [one.name for one in fields(ScalingOptions) if one.name in settings]
        return ScalingOptions(**{name: read_mapping(settings[name]) for name in names})

    def __post_init__(self) -> None:
        check_choice("data.scaler", self.scaler, SCALERS)
        check_choice("data.scale_by", self.scale_by, SCALE_BY)
        check_known_steps(self.known_steps)
        for method in _values(self.fill):
            check_choice("data.fill", method, FILLS)
        if self.fill_limit is not None:
            check_count("data.fill_limit", self.fill_limit, unit="rows")
        for key in ("lower", "upper"):
            for bound in _values(getattr(self, key)):
                if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
                    advice = f"write data.{key}=0 or data.{key}={{COLUMN:0}}"
                    raise ConfigError(f"data.{key}={bound} is not a finite number: {advice}")
        for kind in () if self.transform == AUTO else _values(self.transform):
            check_choice("data.transform", kind, TRANSFORMS, advice=", or auto for all targets")


def _values(setting: Any) -> list[Any]:
    """The values of a setting for all columns or by column, without null."""
    given = setting.values() if isinstance(setting, Mapping) else [setting]
    return [value for value in given if value is not None]


@dataclass(frozen=True, kw_only=True)
class DataOptions(ScalingOptions):
    """Options of scaling a panel, splitting it and cutting it into windows.

    Attributes:
        name: what the data is called in results.
        seq_len, pred_len: steps read and steps forecast.
        split: see `forecast.data.split`. With `split="test"` a checkpoint's scaler is needed.
        features: `M` (all targets from all columns), `S` (the target from itself), `MS` (the target from all columns).
        target: the column that `S` and `MS` forecast; default: the only one.
        batch_size, eval_batch_size: windows of a batch, over all processes; `auto`: see `choose_batch_size`.
        season: rows of a season; default: by the frequency. Then the seasonal naive may repeat another.
        windows_per_epoch: training windows of an epoch, sampled anew each time; None: all; `auto`: see
            `count_windows_per_epoch`.
        eval_stride: use every n-th window of validation and test, the last one always; None: at most
            `EVALUATED_WINDOWS` windows of each split.
        seed: of the order of the training windows.

    Raises ConfigError for a value that is not allowed; numbers are whole and at least 1.
    """

    name: str
    seq_len: int
    pred_len: int
    split: Split
    features: str = "M"
    target: str | None = None
    batch_size: int | str = 32
    eval_batch_size: int | None = None
    season: int | None = None
    windows_per_epoch: int | str | None = None
    eval_stride: int | None = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for key in ("seq_len", "pred_len"):
            check_count(key, getattr(self, key))
        for key in ("batch_size", "eval_stride", "eval_batch_size", "season", "windows_per_epoch"):
            if getattr(self, key) not in (None, AUTO):
                check_count(f"data.{key}", getattr(self, key))
        check_count("seed", self.seed, least=0)
        check_choice("features", self.features, FEATURES)
        check_split(self.split)
        if self.holidays is not None:
            find_holidays("data.holidays", self.holidays)
        super().__post_init__()


def count_windows_per_epoch(asked: int | str | None, count: int, has_future: bool) -> int:
    """The number of `count` training windows that an epoch trains on; None: all.

    `auto` is a seventh of them, at least 4,096 and at most 100,000. Neighbouring windows are almost equal, so the best
    epoch of a model that overfits ends long before all windows are drawn once. The number grows with the rows; beyond
    100,000 windows, epochs take longer and scores do not improve. With future covariates, `auto` is all of them, at
    most 100,000 (docs/residual.md).
    """
    if asked == AUTO:
        asked = min(count if has_future else max(4_096, count // 7), 100_000)
    return count if asked is None else min(int(asked), count)


def choose_batch_size(asked: int | str, has_future: bool) -> int:
    """The training windows of a batch; `auto`: 32, and 128 with future covariates, where an epoch has more windows."""
    if asked == AUTO:
        return 128 if has_future else 32
    return int(asked)


def check_batch_size(windows: int, processes: int) -> None:
    """Raise ConfigError if the windows of a batch cannot be divided among the processes."""
    if windows % processes:
        raise ConfigError(f"data.batch_size={windows} must divide by the number of processes, {processes}")
