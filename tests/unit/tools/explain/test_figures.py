"""What goes into a picture: blocks, ticks, bars, labels."""

import numpy as np
import pandas as pd
import pytest

from forecast.tools.explain.figures import MAX_BARS, MAX_PIXELS, draw_importance, shrink_map, time_ticks
from forecast.tools.explain.importance import Importance, InputGroup, InputKind
from forecast.tools.explain.maps import Timeline


@pytest.mark.parametrize("shape", [(40, 60), (1201, 499)])
def test_a_long_map_is_drawn_as_block_means(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).normal(size=shape)
    small = shrink_map(image)
    assert max(small.shape) <= MAX_PIXELS
    tall, wide = (-(-n // MAX_PIXELS) for n in shape)
    for i, j in ((0, 0), (small.shape[0] - 1, small.shape[1] - 1), (3, 5)):
        expected = image[i * tall : (i + 1) * tall, j * wide : (j + 1) * wide].mean()
        assert small[i, j] == pytest.approx(expected)
    causal = shrink_map(np.ones((1200, 1200)), causal=True)
    rows, columns = np.indices(causal.shape)
    assert (np.isnan(causal) == (columns > rows)).all()


@pytest.mark.parametrize(("freq", "length"), [("h", 96), ("MS", 30), ("W-SUN", 2), ("h", 1)])
def test_ticks_stand_at_their_dates(freq: str, length: int) -> None:
    dates = pd.date_range("2018-01-30 05:00" if freq[-1] in "hn" else "2018-02-04", periods=length, freq=freq)
    places, labels = time_ticks(Timeline(np.arange(length), dates, length))
    assert len(places) == len(labels) >= 1
    assert places.min() >= 0
    assert places.max() <= length - 1
    if (freq, length) == ("h", 96):
        found = dict(zip(labels, places.tolist(), strict=True))
        assert found["31 Jan"] == pytest.approx(19)
        assert found["01 Feb"] == pytest.approx(43)


def importance(kind: InputKind, name: str, mse: float, lags: tuple[int, int] | None = None) -> Importance:
    return Importance(InputGroup(kind, name, (0,), lags), mse, 0.1)


def test_the_most_important_inputs_are_drawn_with_their_lags() -> None:
    found = [
        importance(InputKind.LEVEL, "y", 3.0),
        *(importance(InputKind.CALENDAR, f"part {i}", 0.01 * i) for i in range(MAX_BARS + 5)),
        importance(InputKind.LAGS, "y", 0.4, (1, 24)),
        importance(InputKind.LAGS, "y", -0.6, (25, 48)),
    ]
    (axis,) = draw_importance(found, "title").figure.axes
    labels = [label.get_text() for label in axis.get_yticklabels()]
    assert labels[:3] == ["y, level", "y, lags 1–24", f"part {MAX_BARS + 4}, calendar"]
    assert len(labels) == len(axis.patches) == MAX_BARS
    assert axis.patches[1].get_width() == 0.4  # type: ignore[attr-defined]
