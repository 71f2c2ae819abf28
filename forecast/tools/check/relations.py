"""Relations between columns: copies, categories; and targets with outliers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data import DataModule, Panel
from forecast.system.formatting import plural, shorten
from forecast.tools.check.columns import find_gross_errors
from forecast.tools.check.settings import Setting

MAX_SHIFT = 48
"""Largest number of rows by which a copy is sought to be shifted."""
MAX_ROWS, MAX_COLUMNS = 5_000, 100
"""Newest rows, and first columns, that are compared."""
MIN_ROWS = 50
"""Fewest rows in which copies are sought."""
BOTH_WAYS = 0.05
"""Smallest share of changes up, and of changes down, of a column of which others can be functions."""
MIN_STEPS = 0.1
"""Smallest share of different values of a source at which a function of it differs, which rounded numbers need not."""
EXCEPTIONS = 0.01
"""Largest share of rows that do not follow a function: values of gaps are interpolated."""
ROUND_OFF = 1e-4
"""Largest 1 − correlation of a copy, of the changes from row to row: rounded numbers are copies too."""


MAX_DECIMALS = 6
"""Most decimals to which numbers that sums are sought among may be rounded."""
WHOLE = 0.05
"""Largest distance of the coefficients of a sum from 0 and 1, by least squares on rounded numbers."""


@dataclass(frozen=True)
class Copy:
    """A column with `column[t] = source[t − shift]`, up to a factor. With a negative shift it holds later rows.

    If `is_function`, the column is another function of its source, which never falls (or never rises). If `is_sum`, it
    is the sum of several columns, and `source` names them all: `a + b`.
    """

    name: str
    source: str
    shift: int
    is_function: bool = False
    is_sum: bool = False

    @property
    def relation(self) -> str:
        """The relation of the column to its source, in words."""
        if self.is_sum:
            return f"is the sum {self.source}"
        if self.is_function:
            return f"is a function of {self.source}"
        rows = plural(abs(self.shift), "row")
        if self.shift < 0:
            return f"holds {self.source} of {rows} later"
        return f"repeats {self.source}" + (f" {rows} earlier" if self.shift else "")


def find_copies(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that repeat an earlier column of the table, or `target`, each with the smallest shift.

    Changes from row to row are compared, because levels of slow columns are alike at any small shift.
    """
    changes = np.diff(values[-MAX_ROWS:, :MAX_COLUMNS], axis=0)
    names = names[: changes.shape[1]]
    if len(changes) < MIN_ROWS:
        return []
    changes = changes - changes.mean(0)
    found: dict[str, Copy] = {}
    for shift in sorted(range(-MAX_SHIFT, MAX_SHIFT + 1), key=abs):
        if len(changes) - abs(shift) < MIN_ROWS:
            continue
        later, earlier = changes[max(shift, 0) :], changes[max(-shift, 0) :]
        size = min(len(later), len(earlier))
        later, earlier = later[:size], earlier[:size]
        norms = np.linalg.norm(later, axis=0)[:, None] * np.linalg.norm(earlier, axis=0)
        correlation = np.abs(later.T @ earlier) / np.where(norms > 0, norms, np.inf)
        for copy, source in np.argwhere(correlation > 1 - ROUND_OFF).tolist():
            if may_copy(copy, source, names, target):
                found.setdefault(names[copy], Copy(names[copy], names[source], shift))
    return list(found.values())


def find_copies_and_functions(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that repeat another one, then sums of several columns, and then other functions of one column."""
    found = find_copies(values, names, target)
    for find in (find_sums, find_functions):
        known = {copy.name for copy in found}
        rest = [i for i, name in enumerate(names) if name not in known or find is find_functions]
        more = find(values[:, rest], [names[i] for i in rest], target)
        found += [copy for copy in more if copy.name not in known]
    return found


def find_sums(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that are the sum of two or more others.

    A sum of rounded numbers may differ from the rounded sum by half a unit of the last decimal for each number.
    """
    values = values[-MAX_ROWS:, :MAX_COLUMNS]
    filled = np.flatnonzero(np.isfinite(values).any(0))
    values, names = values[:, filled], [names[i] for i in filled]  # type: ignore[arg-type, call-arg]
    wrong = [
        row for column in values.T for row in find_gross_errors(column).rows
    ]  # they would decide the fit
    values = np.delete(values, wrong, axis=0)
    values = values[np.isfinite(values).all(1)]
    if len(values) < MIN_ROWS:
        return []
    scale = np.linalg.norm(values, axis=0)
    factor = np.linalg.qr(
        values / np.where(scale > 0, scale, 1.0), mode="r"
    )  # has the coefficients of all rows
    units, deviations, found = np.array([find_unit(column) for column in values.T]), values.std(0), []
    for total in range(values.shape[1]):
        parts = find_parts(factor, scale, total)  # type: ignore[arg-type]
        round_off = units[[total, *parts]].sum() / 2 + 1e-9 * np.abs(values[:, total]).max()
        if not len(parts) or round_off > WHOLE * deviations[[total, *parts]].min():
            continue
        error = np.abs(values[:, parts].sum(1) - values[:, total])
        if (error > round_off).mean() <= EXCEPTIONS:
            found.append(Copy(names[total], " + ".join(names[i] for i in parts), 0, is_sum=True))
    return found


def find_parts(
    factor: Float64[np.ndarray, "columns columns"], scale: Float64[np.ndarray, " columns"], total: int
) -> list[int]:
    """The columns whose coefficients in a least-squares fit of a column are all 1; none if there are not two of them.

    Columns with the lowest coefficients are left out until the others have 1. Where subtotals are there too, several
    sums fit, of which the fit is a mixture at first.
    """
    parts = np.array([i for i in range(len(scale)) if i != total and scale[i] > 0])
    while len(parts) >= 2:
        weights = np.linalg.lstsq(factor[:, parts], factor[:, total], rcond=None)[0]
        if np.linalg.norm(factor[:, parts] @ weights - factor[:, total]) > WHOLE:
            break
        weights *= scale[total] / scale[parts]
        if np.abs(weights - 1).max() <= WHOLE:
            return parts.tolist()
        kept = weights > WHOLE
        parts = parts[kept] if not kept.all() else np.delete(parts, weights.argmin())
    return []


def find_unit(column: Float64[np.ndarray, " rows"]) -> float:
    """The unit of the last decimal of rounded numbers; 0 for numbers of more decimals."""
    for decimals in range(MAX_DECIMALS + 1):
        if np.allclose(column, np.round(column, decimals), rtol=1e-12, atol=0):
            return 10.0**-decimals
    return 0.0


def may_copy(copy: int, source: int, names: Sequence[str], target: str | None) -> bool:
    """Whether one of two columns is named as the copy of the other, which is the target or comes earlier."""
    return copy != source and (names[source] == target or (source < copy and names[copy] != target))


def find_functions(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that are functions of an earlier column of the table, or of `target`, such as its square root.

    The function never falls (or never rises), so both columns have the same order, or the reverse one. Columns that
    hardly ever rise or fall are left out: all columns that only rise over time have the same order.
    """
    values = values[-MAX_ROWS:, :MAX_COLUMNS]
    found: dict[str, Copy] = {}
    for source in range(values.shape[1]):
        changes = np.diff(values[:, source])
        steps = np.diff(values[np.argsort(values[:, source], kind="stable")], axis=0)
        differs = steps[:, source] > 0
        if differs.sum() < MIN_ROWS or min((changes > 0).mean(), (changes < 0).mean()) < BOTH_WAYS:
            continue
        shares = np.sort([(steps[differs] > 0).mean(0), (steps[differs] < 0).mean(0)], axis=0)
        exceptions = shares[0] + (steps[~differs] != 0).sum(0) / len(steps)
        for copy in np.flatnonzero((shares[1] >= MIN_STEPS) & (exceptions <= EXCEPTIONS)).tolist():
            if may_copy(copy, source, names, target):
                found.setdefault(names[copy], Copy(names[copy], names[source], 0, is_function=True))
    return list(found.values())


@dataclass(frozen=True)
class CategoryColumn:
    """Facts about a column of text.

    Attributes:
        distinct: number of different texts.
        most_frequent: the text that comes most often, in this fraction of the cells with text; empty if there is none.
        missing, filled: empty cells and cells with text.
    """

    name: str
    distinct: int
    most_frequent: str
    fraction: float
    missing: int
    filled: int

    @property
    def note(self) -> str:
        """The facts in words."""
        if not self.distinct:
            return "text, empty"
        values = "one value" if self.distinct == 1 else f"{self.distinct:,} values"
        missing = f"; {self.missing:,} missing" if self.missing else ""
        return f"text, {values}, most often {self.most_frequent!r} ({self.fraction:.0%}){missing}"


def measure_categories(panel: Panel) -> list[CategoryColumn]:
    """The facts about the covariates that are text; of static ones, a cell is that of a series."""
    found = []
    blocks = [(np.asarray(panel.values), panel.columns), (panel.future, panel.future_columns)]
    for block, names in blocks:
        for number, name in enumerate(names):
            if name in panel.texts and block is not None:
                codes = np.asarray(block)[:, number]
                found.append(_measure(name, panel.texts[name], codes[~np.isnan(codes)]))
    for name, column in panel.static.items():
        if not pd.api.types.is_numeric_dtype(column.dtype):
            codes, texts = pd.factorize(column)
            found.append(_measure(str(name), list(map(str, texts)), codes))
    return found


def _measure(name: str, texts: Sequence[str], codes: np.ndarray) -> CategoryColumn:
    counts = np.bincount(codes[codes >= 0].astype(np.int64), minlength=len(texts))
    most = int(counts.argmax()) if counts.sum() else None
    return CategoryColumn(
        name=name,
        distinct=int((counts > 0).sum()),
        most_frequent="" if most is None else texts[most],
        fraction=0.0 if most is None else float(counts[most] / counts.sum()),
        missing=int((codes < 0).sum()),
        filled=int(counts.sum()),
    )


HEAVY_TAILS = 10.0
"""Excess kurtosis from which a transform is suggested: those of hourly loads and of ETT are lower, of prices higher."""


def suggest_transform(
    train: Sequence[Float64[np.ndarray, "_ columns"]], targets: Sequence[str], data: DataModule
) -> list[Setting]:
    """Suggest data.transform=auto for targets with outliers, of which the squared error would learn most.

    `train` has the training rows of the targets, of one or several series.
    """
    kurtosis = (
        np.mean([_excess_kurtosis(rows) for rows in train if len(rows)], axis=0) if train else np.zeros(0)
    )
    names = [name for name, size in zip(targets, np.atleast_1d(kurtosis), strict=False) if size > HEAVY_TAILS]
    if not names or data.options.transform is not None:
        return []
    listed = shorten(names, 3)
    return [
        Setting(
            "data.transform", "auto", f"outliers in {listed}; kept if validation errors are lower with it"
        )
    ]


def _excess_kurtosis(rows: Float64[np.ndarray, "rows columns"]) -> Float64[np.ndarray, " columns"]:
    """0 for normal values, and for columns of at most two values, such as the days on which something happened."""
    centered = rows - rows.mean(0)
    variance = (centered**2).mean(0)
    has_two_values = ((rows == rows.min(0)) | (rows == rows.max(0))).all(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(has_two_values, 0.0, (centered**4).mean(0) / variance**2 - 3)
