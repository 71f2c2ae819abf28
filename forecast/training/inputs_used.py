"""The inputs that the tested forecast reads. If only the linear model is kept, it reads fewer columns."""

from collections.abc import Iterable

from forecast.data import DataModule
from forecast.data.scaled_panel import ScaledPanel
from forecast.linear.covariate_steps import covariates_of_linear
from forecast.models import ForecastModel
from forecast.system.formatting import shorten

MAX_NAMED = 8
"""Largest number of columns that a line names."""


def list_inputs(model: ForecastModel, data: DataModule, *, untrained: bool) -> list[str]:
    """Name what a model reads: `past of NAME`, `past and future of NAME`, `calendar`, `static NAME`.

    Args:
        model: the model, with its warm start.
        data: its data.
        untrained: whether the warm start alone forecasts. Where it has no `linear_weights`, its inputs are not known,
            and all are named.
    """
    linear, past = model.linear_weights(), past_of_model(model, data.n_features, untrained=untrained)
    known = covariates_of_model(model, data.scaled, untrained=untrained)
    read = [
        f"past of {file_column(data, data.feature_columns[i])}" for i in sorted({*data.target_index} | past)
    ]
    read += [
        f"{'past and future' if ahead else 'past'} of {file_column(data, data.panel.future_covariates[i])}"
        for i, ahead in sorted(known.items())
    ]
    if linear is None or not untrained:
        read += ["calendar", *(f"static {column}" for column in data.panel.static.columns)]
    return list(dict.fromkeys(read))


def past_of_model(model: ForecastModel, n_features: int, *, untrained: bool) -> set[int]:
    """The numbers of the columns, beside the targets, whose past a model reads; see `list_inputs`."""
    linear = model.linear_weights()
    past = set() if linear is None else {position % n_features for position in linear.past_index.tolist()}
    if linear is None or not untrained:
        past |= set(() if model.tokens == "independent" else range(n_features))
    return past


def covariates_of_model(model: ForecastModel, scaled: ScaledPanel, *, untrained: bool) -> dict[int, bool]:
    """The numbers of the future covariates that a model reads, and whether it reads them after the forecast origin.

    Args:
        model, untrained: see `list_inputs`.
        scaled: its data, scaled.
    """
    linear = model.linear_weights()
    known = {} if linear is None else covariates_of_linear(linear, scaled)
    if linear is None or not untrained:
        for covariate in range(len(scaled.panel.future_covariates)):
            known[covariate] = known.get(covariate, False) or model.future_calendar
    return known


def file_column(data: DataModule, column: str) -> str:
    """The name of a column in the file: that of the category for the indicator of one of its values."""
    return data.panel.indicators.get(column, column)


def join_inputs(inputs: Iterable[str]) -> str:
    """Join the names of inputs into one line: `past of a, b; past and future of c; calendar`."""
    groups: dict[str, list[str]] = {}
    for text in inputs:
        kind = next(
            (kind for kind in ("past of", "past and future of", "static") if text.startswith(f"{kind} ")),
            text,
        )
        groups.setdefault(kind, []).append(text[len(kind) + 1 :])
    parts = []
    for kind, columns in groups.items():
        shown = shorten(columns, MAX_NAMED)
        parts.append(f"{kind} {shown}".strip())
    return "; ".join(parts)
