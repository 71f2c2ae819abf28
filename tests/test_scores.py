"""What a test's scores are said to mean."""

import math

import pytest

from forecast.scores import skill_in_words


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
    assert skill_in_words(skill, "drift") == said
