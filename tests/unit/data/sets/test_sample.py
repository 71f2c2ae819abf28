import hashlib

import numpy as np

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
