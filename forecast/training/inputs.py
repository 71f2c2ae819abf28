"""The inputs of a run in words, and those that the tested forecast reads (the linear model alone reads fewer)."""

from collections.abc import Iterable

from forecast.data import DataModule
from forecast.data.covariates import describe_known
from forecast.data.panel import describe_missing
from forecast.data.scaled_panel import ScaledPanel
from forecast.linear.covariate_steps import count_fitted_windows, covariates_of_linear
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


def describe_inputs(data: DataModule) -> list[str]:
    """Describe the covariates, transforms and bounds, and the number of training windows if not all are used."""
    panel, train, lines = data.panel, data.windows["train"], []
    covariates = {
        "past covariates": [name for name in data.feature_columns if name not in data.columns],
        "future covariates": panel.future_covariates,
        "static": list(map(str, panel.static.columns)),
    }
    described = {role: panel.describe_covariates(names) for role, names in covariates.items() if names}
    if listed := "; ".join(f"{role} {names}" for role, names in described.items()):
        lines.append(f"covariates {listed}")
    known = describe_known(panel.future_covariates, panel.as_of, data.scaled.scales.known_steps)
    if limited := sorted(set(known) - set(panel.future_covariates)):
        lines.append(f"known      {', '.join(limited)}")
    lines += describe_missing(panel, data.feature_columns, data.target_columns, data.options.fill)
    domain = data.target_scaler.domain
    if words := domain.describe(data.target_columns):
        lines.append(f"values     {words}")
    if data.windows_per_epoch < min(len(panel), len(train)):
        lines.append(
            f"note: an epoch of {data.windows_per_epoch:,} windows misses many of {len(panel):,} series: "
            f"windows_per_epoch={4 * len(panel)} draws about four of each"
        )
    if (fitted := count_fitted_windows(train)) < len(train):
        lines.append(f"linear model fitted to {fitted:,} of {len(train):,} training windows, evenly spaced")
    return lines
