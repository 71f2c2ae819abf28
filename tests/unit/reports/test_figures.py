import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data.scaler import Scaler
from forecast.reports.figures import label_values, prediction_figure, step_figure, subplots
from forecast.reports.plots import PlottedForecast, describe_span


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        ("2022-01-24", "2022-02-20", "24 Jan to 20 Feb 2022"),
        ("2021-12-24", "2022-01-02", "24 Dec 2021 to 2 Jan 2022"),
        ("2022-01-24", "2022-01-24", "24 Jan 2022"),
        ("2013-05-05 00:00", "2013-05-05 23:00", "5 May 2013 00:00 to 23:00"),
        ("2013-05-05 12:00", "2013-05-06 11:00", "5 May 12:00 to 6 May 2013 11:00"),
    ],
)
def test_a_span_names_what_differs(first: str, last: str, words: str) -> None:
    assert describe_span(pd.DatetimeIndex([first, last])) == words


def test_a_forecast_begins_at_the_last_observed_value_and_names_the_time_zone() -> None:
    dates = pd.date_range("2024-01-01", periods=6, freq="h")
    history = np.array([1.0, 2.0, np.nan])
    values = np.array([3.0, 4.0, 5.0])
    plotted = PlottedForecast("load", dates[:3], history, dates[3:], values, {}, {}, values + np.nan, "UTC")
    (axis,) = prediction_figure([plotted], "title").axes
    (line,) = [line for line in axis.lines if line.get_label() == "forecast"]
    np.testing.assert_array_equal(line.get_ydata(), [2, 3, 4, 5])
    assert line.get_xdata(orig=True)[0] == dates[1]
    assert axis.get_xlabel() == "UTC"


def test_the_label_of_a_joined_id_breaks_behind_its_sign() -> None:
    _, axis = subplots(figsize=(4, 3))
    label_values(axis, "type/region organic/HartfordSpringfield: y")
    assert axis.get_ylabel() == "type/region organic/\nHartfordSpringfield: y"


@pytest.mark.parametrize(("step", "label"), [("hour", "hours ahead"), ("15 minutes", "steps of 15 minutes ahead")])
def test_errors_of_baselines_do_not_dwarf_those_of_the_model(step: str, label: str) -> None:
    errors = {"model (full)": np.linspace(0.1, 0.2, 24), "seasonal naive": np.full(24, 0.7), "naive": np.full(24, 9.0)}
    scaler = Scaler(torch.zeros(1, 1), torch.full((1, 1), 5.0))
    (axis,) = step_figure(errors, "title", "full", 24, step, scaler, ["load"]).axes
    assert axis.get_ylim() == (0, pytest.approx(0.8))
    assert [line.get_label() for line in axis.lines] == ["model (full)", "seasonal naive", "naive (to 9)"]
    assert axis.get_xlabel() == label
    assert list(axis.get_xticks()) == [0, 6, 12, 18, 24]
    (units,) = axis.child_axes
    units.figure.canvas.draw()
    assert (units.get_ylabel(), units.get_ylim()) == ("RMSE (load)", (0, pytest.approx(5 * 0.8**0.5)))


@pytest.mark.parametrize("n_columns", [2, 1])
def test_units_of_several_columns_or_of_a_transform_are_not_drawn(n_columns: int) -> None:
    unit = torch.full((1, n_columns), 5.0)
    scaler = Scaler(torch.zeros(1, n_columns), unit, error_unit=unit * (3 - n_columns))
    (axis,) = step_figure({"model (full)": np.ones(4)}, "title", "full", 2, "hour", scaler, ["a", "b"]).axes
    assert axis.child_axes == []
