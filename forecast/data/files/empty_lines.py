"""Lines of a CSV file without any value: they are no rows, and are skipped with a warning."""

import re
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int64

from forecast.system.formatting import plural
from forecast.system.location import Location


def strip_blank_lines(raw: bytes) -> bytes:
    """The text with lines of spaces or tabs as lines without characters, as pandas takes them for missing values."""
    if b"\n " in raw or b"\n\t" in raw:  # which is faster than the expression
        return re.sub(rb"(?<=\n)[ \t]+(?=\r?\n|\Z)", b"", raw)
    return raw


def find_rows(frame: pd.DataFrame, texts: Sequence[int]) -> Int64[np.ndarray, " rows"]:
    """The positions of the lines with a value; columns with a number in `texts` have one in most files."""
    if len(frame) and texts and not frame.iloc[:, texts[0]].hasnans:
        return np.arange(len(frame))
    return np.flatnonzero(frame.notna().any(axis=1))


def line_of_row(number: int, skipped: Sequence[int]) -> int:
    """The line of a row that would be line `number` of the file without the lines `skipped`, which ascend."""
    before = np.asarray(skipped, dtype=np.int64) - np.arange(len(skipped))
    return number + int(np.searchsorted(before, number, side="right"))


def warn_of_skipped_lines(path: Location, count: int, first: int) -> None:
    """Warn of a number of skipped lines, of which `first` is the first."""
    if count:
        first_of = f"line {first}" if count == 1 else f"the first is line {first}"
        warnings.warn(f"{path}: skipped {plural(count, 'line')} without a value: {first_of}", stacklevel=3)
