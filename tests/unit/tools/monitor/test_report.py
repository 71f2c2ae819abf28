"""The lines of `forecast.monitor` on the inputs."""

from forecast.tools.monitor.report import MAX_COLUMNS, describe_drift
from forecast.tools.monitor.verdict import Drift


def test_training_values_are_stated_for_the_standard_scaler_only() -> None:
    drift = {"load": Drift(1.5, 0.8), "price": Drift(-0.1, 1.0)}
    assert describe_drift(drift, "standard") == [
        "inputs     load: mean +1.50, standard deviation 0.80 (training: 0 and 1)",
        "           price: mean -0.10, standard deviation 1.00 (training: 0 and 1)",
    ]
    assert describe_drift(drift, "minmax") == [
        "inputs     load: mean +1.50, standard deviation 0.80",
        "           price: mean -0.10, standard deviation 1.00",
    ]


def test_only_the_first_columns_are_printed() -> None:
    drift = {f"column {i}": Drift(0.0, 1.0) for i in range(MAX_COLUMNS + 2)}
    lines = describe_drift(drift, "none")
    assert [line[11:].split(":")[0] for line in lines] == list(drift)[:MAX_COLUMNS]
