"""The options of parsing the text of a file; every field is the configuration key `data.<field>`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64

from forecast.data.calendars import UtcOffset
from forecast.data.time_features import name_step
from forecast.system.errors import ConfigError, check_choice, check_count, check_flag

STAMPS = ("start", "end")
HEADERS = ("first", "none")


@dataclass(kw_only=True)
class StepOptions:
    """Options of the dates of every table.

    Args:
        freq: step between rows; None: inferred.
        stamp: whether a date is the `start` or the `end` of its step. Dates at the end move back by one step, `freq`.
    """

    freq: str | None = None
    stamp: str = "start"


AnyOptions = TypeVar("AnyOptions", bound="ReadOptions")


@dataclass(kw_only=True)
class ReadOptions(StepOptions):
    """Options of parsing the text of a file.

    Args:
        date_format: of strptime, or for numbers `unix`, `unix_ms`, `unix_us`, `unix_ns` or `excel`. None: ISO 8601 and
            any unambiguous format.
        day_first: whether 01/02/2024 is 1 February, in a file whose dates do not show it. None: such a file is refused.
        timezone: zone of dates without an offset from UTC, such as Europe/Berlin; the dates become UTC.
        skip_rows: lines above the header, or above the first row of a file without one. None: 0.
        separator: character between fields; `\\t`, also written as backslash and t, is a tab.
        decimal: character before decimals. None: a full stop, unless it seems to separate thousands.
        thousands: character between groups of digits; a space and an apostrophe stand for all kinds of theirs.
        encoding: of the text, such as latin-1. None: UTF-8, or UTF-16 where the file begins so.
        header: `first`: the first line names the columns. `none`: it is a row, and the columns have the `names`.
        names: of the columns of a file without a header. Empty: column_1, column_2, ...
        start: date of the first row of each series in a file without dates; rows are `freq` apart.
        melt: whether the file has one series per row, see `forecast.data.files.read.melt_series`.
        sheet: name of the sheet of an Excel workbook. None: the only one.
        na_values: further numbers and texts that mean a missing value, such as -9999.

    Raises ConfigError for a value that is not possible.
    """

    date_format: str | None = None
    day_first: bool | None = None
    timezone: str | None = None
    skip_rows: int | None = None
    separator: str = ","
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    na_values: Sequence[int | float | str] = ()
    header: str = "first"
    names: Sequence[str] = ()
    start: str | None = None
    melt: bool = False

    def __post_init__(self) -> None:
        self.separator = "\t" if self.separator == r"\t" else self.separator
        for key in ("separator", "decimal", "thousands"):
            if (character := getattr(self, key)) is not None or key == "separator":
                _check_character(key, character)
        if self.decimal_sign == self.thousands:
            example = f"data.decimal={',' if self.thousands == '.' else '.'} data.thousands={self.thousands}"
            both = f"data.decimal and data.thousands are both {self.thousands!r}"
            raise ConfigError(f"{both}: they must differ, as in {example}")
        check_flag("data.day_first", self.day_first)
        check_choice("data.stamp", self.stamp, STAMPS)
        check_choice("data.header", self.header, HEADERS)
        if self.skip_rows is not None:
            check_count("data.skip_rows", self.skip_rows, unit="lines", least=0)
        if self.names and self.header != "none":
            problem = "data.names names the columns of a file without a header"
            raise ConfigError(f"{problem}: leave it out, or give data.header=none too")
        if self.start is not None and self.freq is None:
            needed = "needs the step between rows: set data.freq, such as D"
            raise ConfigError(f"data.start={self.start} {needed}")
        try:
            "".encode("utf-8" if self.encoding is None else self.encoding)
        except LookupError:
            raise ConfigError(f"data.encoding={self.encoding} is not known: write one as latin-1") from None
        if isinstance(self.na_values, str) or not isinstance(self.na_values, Sequence):
            raise ConfigError(f"data.na_values={self.na_values}: write a list, as in data.na_values=[-9999]")

    def of_rows_after(self: AnyOptions, utc_offset: UtcOffset) -> AnyOptions:
        """The options of a table of later rows, whose dates are written as those of a table read with these options."""
        order, step = utc_offset.day_first, utc_offset.stamp
        day_first = self.day_first if order is None else order
        freq = name_step(step) if step else self.freq  # too few rows may not show it
        return replace(self, melt=False, day_first=day_first, freq=freq)

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> "ReadOptions":
        """The reading options among settings of a source."""
        return cls(**{name: settings[name] for name in cls.option_names() if name in settings})

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    @property
    def decimal_sign(self) -> str:
        """The character before decimals."""
        return self.decimal or "."

    @property
    def first_line(self) -> int:
        """The number of the line with which reading begins."""
        return 1 + (self.skip_rows or 0)

    @property
    def given_names(self) -> Sequence[str] | None:
        """The names of the columns if the file has no header; empty if it has no names either."""
        return list(map(str, self.names)) if self.header == "none" else None

    @property
    def na_texts(self) -> list[str]:
        """The missing values as texts of cells."""
        return [str(value) for value in self.na_values]

    def blank(self, numbers: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
        """Replace the numbers that mean a missing value by NaN."""
        missing = [float(value) for value in self.na_values if isinstance(value, int | float)]
        return np.where(np.isin(numbers, missing), np.nan, numbers) if missing else numbers


def _check_character(key: str, character: Any) -> None:
    if character is None or len(character) != 1:
        raise ConfigError(f"data.{key}={character!r} must be one character")
    allowed = {"separator": "\t", "thousands": "\xa0\u202f"}.get(key, "")  # no-break spaces
    is_shown = character.isascii() and character.isprintable()
    if not (is_shown and not character.isalnum() and character not in '"+-') and character not in allowed:
        raise ConfigError(f"data.{key}={character!r} is no character that can separate: give another")
