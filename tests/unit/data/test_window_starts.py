"""The windows of validation and test that a stride chooses."""

import re
import warnings
from math import gcd

import pytest

from forecast.data.split import warn_of_times_of_day


@pytest.mark.parametrize(
    ("stride", "warns"), [(24, True), (48, True), (25, False), (12, True), (10, True), (1, False)]
)
def test_windows_that_do_not_begin_at_all_times_of_day_are_warned_of(stride: int, warns: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_times_of_day("load", stride, day=24)
        warn_of_times_of_day("daily", stride, day=1)
    assert [str(w.message).partition(":")[0] for w in caught] == ["load"] * warns
    if warns:
        assert gcd(int(re.findall(r"eval_stride=(\d+)", str(caught[0].message))[-1]), 24) == 1
