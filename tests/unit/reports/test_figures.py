"""Figures: labels of axes."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from forecast.reports import figures
from forecast.reports.plots import PlottedForecast

pytestmark = pytest.mark.slow

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
