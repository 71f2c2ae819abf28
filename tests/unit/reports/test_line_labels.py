"""Names of lines beside their right ends."""

import numpy as np
import pytest

from forecast.reports.figures import label_ends, spread_out, subplots


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
