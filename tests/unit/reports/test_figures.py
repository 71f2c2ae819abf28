"""Figures: labels of axes and lines, and what a figure leaves out."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from forecast.reports import figures
from forecast.reports.figures import label_ends, spread_out, subplots
from forecast.reports.plotted_forecast import PlottedForecast

LONG = "Sonstige Konventionelle Erzeugung der Kraftwerke in Deutschland und Luxemburg [MWh]"


def plotted(label: str, size: float) -> PlottedForecast:
    dates = pd.date_range("2024-01-01", periods=20, freq="D")
    values = size * np.arange(20.0)
    return PlottedForecast(
        label, dates[:16], values[:16], dates[16:], values[16:], {}, {}, np.full(4, np.nan)
    )


@pytest.mark.parametrize("size", [1e6, 0.1])
def test_labels_fit_their_axes_and_numbers_stand_in_full(size: float) -> None:
    figure = figures.prediction_figure([plotted(LONG, size), plotted("load", 1.0)], "x")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axis in figure.axes:
        height = axis.get_window_extent().height
        assert axis.yaxis.label.get_window_extent(canvas.get_renderer()).height <= height
        assert not axis.yaxis.get_offset_text().get_text()
    ticks = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert ("5,000,000" if size > 1 else "0.5") in ticks


@pytest.mark.parametrize(
    ("first", "freq", "periods", "expected"),
    [
        ("2023-12-28", "h", 120, "28\n2023-Dec"),
        ("2017-02-26 09:00", "h", 24, "09:00\n2017-Feb-26"),
        ("2016-11-20", "D", 300, "2017"),
        ("2003-01-01", "MS", 120, "2004"),
    ],
)
def test_the_first_date_has_the_month_and_the_year_that_the_others_lack(
    first, freq, periods, expected
) -> None:
    figure, axis = figures.subplots(figsize=(9, 2))
    axis.plot(pd.date_range(first, periods=periods, freq=freq), range(periods))
    figures.format_dates(axis, 3, 10)
    figure.canvas.draw()
    low = min(axis.get_xlim())
    seen = [tick.get_text() for tick in axis.get_xticklabels() if tick.get_position()[0] >= low]
    assert seen[0] == expected
    assert axis.xaxis.get_offset_text().get_text() == ""


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9]),
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.5, 0.5, 0.5], [0.4, 0.5, 0.6]),
        ([0.0, 0.5, 0.55, 0.9], [0.0, 0.475, 0.575, 0.9]),
    ],
)
def test_places_move_as_little_as_they_must(places: list[float], expected: list[float]) -> None:
    assert spread_out(places, 0.1) == pytest.approx(expected)


def test_labels_stand_at_the_ends_of_lines_without_overlap() -> None:
    _, axis = subplots(figsize=(4, 3))
    axis.plot([0, 1], [0, 1])
    axis.set_ylim(0, 1)
    label_ends(axis, {"low": (0.2, "red"), "high": (0.8, "blue"), "also high": (0.8, "green")}, gap=0.1)
    places = {text.get_text(): text.get_position()[1] for text in axis.texts}
    assert places["low"] == pytest.approx(0.2)
    assert np.mean([places["high"], places["also high"]]) == pytest.approx(0.8)
    assert abs(places["high"] - places["also high"]) == pytest.approx(0.1)
