"""The inputs of a run in words: covariates, missing values, and the training windows in use."""

from forecast.data import DataModule
from forecast.data.known_steps import describe_known
from forecast.data.missing import describe_missing
from forecast.linear.covariate_steps import count_fitted_windows


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
