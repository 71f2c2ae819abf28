"""A panel's rows and columns taken by number and name, beside pandas; which values were measured."""

import numpy as np
import pandas as pd

from forecast.data import Panel
from tests.support.long_files import long_frame, long_frame_data

FUTURE = 3


def panel_of(frame: pd.DataFrame, **options) -> Panel:
    options = {
        "columns": ["y", "temperature"],
        "future_covariates": ["price"],
        "static_covariates": ["region"],
    } | options
    data = long_frame_data(frame, name="mine", seq_len=6, pred_len=3, split=[0.7, 0.1, 0.2], **options)
    return data.source.read()


def test_taken_rows_keep_their_dates_values_and_covariates() -> None:
    frame = long_frame(FUTURE)
    panel = panel_of(frame)
    chosen = np.array([3, 1])  # in another order
    first = panel.starts[chosen] + [10, 0]
    stops, ends = panel.stops[chosen] - [0, 30], panel.ends[chosen] - [5, 40]
    part = panel.take_rows(chosen, first, stops, ends)
    assert part.ids.tolist() == ["é", "002"]
    assert part.ids.name == "unique_id"
    assert part.static["region"].tolist() == ["south", "south"]
    assert part.starts.tolist() == [0, 53]
    assert part.lengths.tolist() == [60 - 10 - 5, 55 - 40]
    assert (part.stops - part.starts).tolist() == [60 + FUTURE - 10, 55 + FUTURE - 30]
    assert part.future is not None
    for s, name in enumerate(part.ids):
        own = frame.loc[frame["unique_id"] == name].reset_index(drop=True)
        own = own.iloc[10:] if name == "é" else own.iloc[: 55 + FUTURE - 30]
        rows = np.arange(part.starts[s], part.stops[s])
        assert part.dates(rows).to_list() == own["ds"].to_list()
        np.testing.assert_array_equal(part.future[rows, 0], own["price"])
        length = int(part.lengths[s])
        np.testing.assert_array_equal(part.values[rows[:length]], own[["y", "temperature"]][:length])
        assert np.isnan(part.values[rows[length:]]).all()  # values after the new end are unknown
    assert part.first_date == panel.dates(first).min()
    assert np.isfinite(panel.values[: panel.ends[0]]).all()  # and are still known in the first panel
