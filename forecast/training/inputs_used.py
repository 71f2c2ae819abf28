"""The inputs that a tested forecast reads: fewer than the data offer where the linear model alone is kept."""

from collections.abc import Iterable

from forecast.data import DataModule
from forecast.models import ForecastModel
from forecast.models.linear_model import LinearModel

MAX_NAMED = 8
"""Largest number of columns that a line names."""


def list_inputs(model: ForecastModel, data: DataModule, *, untrained: bool) -> list[str]:
    """Name what a model reads: `past of NAME`, `future of NAME`, which includes its past, `calendar`, `static NAME`.

    Args:
        model: the model, with its warm start.
        data: its data.
        untrained: whether the warm start alone forecasts. Where it is no `LinearModel`, its inputs are not known, and
            all are named.
    """
    targets = set(data.target_index)
    linear = find_linear(model)
    n_features, n_time, n_calendar = (
        data.n_features,
        data.n_time_features,
        data.scaled.time.calendar.n_columns,
    )
    past: set[int] = set()  # columns, beside the targets, that the linear model reads
    known: dict[int, bool] = {}  # future covariates that it reads, and whether beyond the past
    if linear is not None:
        weights = linear.weights
        past = {position % n_features for position in weights.past_index.tolist()}
        for position in weights.time_index.tolist():
            column = position % n_time - n_calendar
            known[column] = known.get(column, False) or position // n_time >= data.seq_len
    if linear is None or not untrained:
        past |= set(() if model.tokens == "independent" else range(n_features))
        for column in range(len(data.panel.future_covariates)):
            known[column] = known.get(column, False) or model.future_calendar
    read = [f"past of {file_column(data, data.feature_columns[i])}" for i in sorted(targets | past)]
    read += [
        f"{'future' if ahead else 'past'} of {file_column(data, data.panel.future_covariates[i])}"
        for i, ahead in sorted(known.items())
    ]
    if linear is None or not untrained:
        read += ["calendar", *(f"static {column}" for column in data.panel.static.columns)]
    return list(dict.fromkeys(read))


def find_linear(model: ForecastModel) -> LinearModel | None:
    """The linear model whose forecast a model corrects."""
    return next((module for module in model.children() if isinstance(module, LinearModel)), None)


def file_column(data: DataModule, column: str) -> str:
    """The name of a column in the file: that of the category for the indicator of one of its values."""
    return data.panel.indicators.get(column, column)


def join_inputs(inputs: Iterable[str]) -> str:
    """Join the names of inputs into one line: `the past of a, b; the future of c; calendar`."""
    groups: dict[str, list[str]] = {}
    for text in inputs:
        kind = next(
            (kind for kind in ("past of", "future of", "static") if text.startswith(f"{kind} ")), text
        )
        groups.setdefault(kind, []).append(text[len(kind) + 1 :])
    parts = []
    for kind, columns in groups.items():
        shown = ", ".join(columns[:MAX_NAMED]) + (", ..." if len(columns) > MAX_NAMED else "")
        parts.append(f"{kind} {shown}".strip())
    return "; ".join(parts)
