"""What a test's scores are said to mean."""

import math

import pytest

from forecast.reports.terminal import describe_skill
from forecast.system.formatting import format_column


@pytest.mark.parametrize(
    ("skill", "said"),
    [
        (0.1244, "skill 0.124: 12.4% less squared error than drift, the best baseline"),
        (-0.051, "skill -0.051: WORSE than drift by 5.1% in squared error; use drift"),
        (-0.0004, "skill 0.000: level with drift, the best baseline"),
        (0.0004, "skill 0.000: level with drift, the best baseline"),
        (math.nan, "no skill can be given: drift, the best baseline, makes no error here; use drift"),
    ],
)  # fmt: skip
def test_a_skill_is_put_in_words(skill: float, said: str) -> None:
    assert describe_skill(skill, "drift") == said


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ([0.0215, 1.5], ["0.0215", "1.5000"]),
        ([0.209, 1.53], ["0.209", "1.530"]),
        ([14.58, 39.455], ["14.6", "39.5"]),
        ([1882.62, 6307.9], ["1,883", "6,308"]),
        ([0.0, 0.5, math.nan], ["0.000", "0.500", "nan"]),
        ([0.0], ["0.000"]),
    ],
)  # fmt: skip
def test_the_numbers_of_a_column_have_the_decimals_of_the_smallest(
    column: list[float], shown: list[str]
) -> None:
    assert format_column(column) == shown
