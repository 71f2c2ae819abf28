"""The base class of data sources, and the options of a data module, the same for every source."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from forecast.data.covariates import KnownSteps, check_known_steps
from forecast.data.domain import BoundSetting, FillSetting, TransformSetting, check_domain, check_fill
from forecast.data.panel import Panel
from forecast.data.split import Split, check_split
from forecast.data.time_features import find_holidays
from forecast.system.errors import check_choice, check_count
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
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """Options of scaling a panel and of filling its missing values.

    Attributes:
        scaler, scale_by: see `forecast.data.scaler.fit_scaler`.
        holidays: country whose public holidays are a calendar feature.
        fill, fill_limit: how missing values in the past of a window are completed, see `forecast.data.windows`.
        known_steps: steps for which future covariates are known after a forecast origin, one number or by column; None:
            over the whole horizon.
        lower, upper, transform: bounds of the forecasts and transforms before scaling, see
            `forecast.data.domain`. A checkpoint has its own.

    Raises:
        ConfigError: an option has a value that is not allowed.
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
        return ScalingOptions(
            **{
                one.name: read_mapping(settings[one.name])
                for one in fields(ScalingOptions)
                if one.name in settings
            }
        )

    def __post_init__(self) -> None:
        check_choice("data.scaler", self.scaler, SCALERS)
        check_choice("data.scale_by", self.scale_by, SCALE_BY)
        check_fill(self.fill, self.fill_limit)
        check_known_steps(self.known_steps)
        check_domain(self.lower, self.upper, self.transform)


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

    Raises:
        ConfigError: an option has a value that is not allowed; numbers are whole and at least 1.
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
        required = {"seq_len": self.seq_len, "pred_len": self.pred_len}
        keys = ("batch_size", "eval_stride", "eval_batch_size", "season", "windows_per_epoch")
        optional = {
            f"data.{key}": getattr(self, key) for key in keys if getattr(self, key) not in (None, AUTO)
        }
        for key, value in {**required, **optional}.items():
            check_count(key, value)
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
