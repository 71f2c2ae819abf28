import hashlib

import numpy as np

from forecast.data import sample_data
from forecast.data.sets import SAMPLE_COLUMNS as COLUMNS
from forecast.data.sets import sample_table


def test_the_sample_is_hourly_and_in_etts_columns():
    table = sample_table()
    assert table.columns == COLUMNS
    assert table.values.shape == (17_420, 7)
    assert table.freq == "h"
    assert str(table.grid[0]) == "2016-07-01 00:00:00"
    assert np.isfinite(table.values).all()


def test_the_sample_is_the_same_bytes_every_time():
    digest = hashlib.sha256(sample_table().values.tobytes()).hexdigest()
    assert digest == "2fa4e5ae2a5c276023588c6ad19f1211fbeb34642b8f1153f9b5b9d10e314590"
    assert hashlib.sha256(sample_table().values.tobytes()).hexdigest() == digest


def test_workdays_differ_from_weekends_and_holidays():
    table = sample_table()
    noon = table.grid.hour == 12
    industrial, weekday = table.values[:, 0], table.grid.day_of_week
    workdays = industrial[noon & (weekday < 5)].mean()
    assert workdays > 1.3 * industrial[noon & (weekday == 6)].mean()
    labour_day = (table.grid.strftime("%Y-%m-%d") == "2018-05-01") & noon
    assert industrial[labour_day].mean() < 0.85 * workdays


def test_oil_follows_past_loads():
    table = sample_table()
    load, oil = table.values[:, [0, 2, 4]].sum(axis=1), table.values[:, 6]
    changes = np.diff(load), np.diff(oil)
    by_lag = [np.corrcoef(changes[0][: 17_000 - lag], changes[1][lag:17_000])[0, 1] for lag in (0, 1, 2, 12)]
    assert by_lag[1] > 0.15
    assert by_lag[1] > by_lag[3]


def test_sample_data_needs_no_file():
    data = sample_data(name="sample", seq_len=96, pred_len=24, split=[0.7, 0.1, 0.2], target="OT")
    data.setup()
    assert data.n_windows == {"train": 12_075, "val": 1719, "test": 3461}
    assert (data.n_features, data.n_targets, data.n_time_features, data.season) == (7, 7, 4, 24)
