"""What goes into a picture: blocks, ticks, numbers."""

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.tools.explain.downsampling import MAX_PIXELS, shrink_map
from forecast.tools.explain.measures import Number, overlap, relative_error, row_entropy, weight_within
from forecast.tools.explain.time_axis import time_ticks
from forecast.tools.explain.timeline import Timeline


@pytest.mark.parametrize("shape", [(40, 60), (1201, 499), (2 * MAX_PIXELS, 3 * MAX_PIXELS + 1)])
def test_a_long_map_is_drawn_as_block_means(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).normal(size=shape)
    small = shrink_map(image)
    assert max(small.shape) <= MAX_PIXELS
    tall, wide = (-(-n // MAX_PIXELS) for n in shape)
    for i, j in ((0, 0), (small.shape[0] - 1, small.shape[1] - 1), (3, 5)):
        expected = image[i * tall : (i + 1) * tall, j * wide : (j + 1) * wide].mean()
        assert small[i, j] == pytest.approx(expected)


def test_masked_weights_of_a_causal_map_are_blank() -> None:
    small = shrink_map(np.ones((1200, 1200)), causal=True)
    rows, columns = np.indices(small.shape)
    assert (np.isnan(small) == (columns > rows)).all()


@pytest.mark.parametrize(
    ("freq", "length"), [("h", 96), ("15min", 5), ("MS", 30), ("D", 720), ("W-SUN", 2), ("h", 1)]
)
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


def test_the_numbers_of_known_maps() -> None:
    uniform, sharp = torch.full((3, 8), 1 / 8), torch.eye(8)[:3]
    assert row_entropy(uniform) == pytest.approx(3)
    assert row_entropy(sharp) == 0
    assert row_entropy(torch.tensor([[0.5, 0.5, 0, 0]])) == pytest.approx(1)
    assert weight_within(uniform, torch.arange(8) >= 6) == pytest.approx(0.25)
    assert relative_error(uniform, uniform) == 0
    assert relative_error(2 * sharp, sharp) == pytest.approx(1)
    assert overlap(torch.tensor([1, 5, 7, 9]), torch.tensor([5, 6, 7, 8])) == 0.5


def test_a_number_in_words() -> None:
    number = Number("attention", 0.256, "%", {"uniform": 0.25, "worst head": 0.5})
    assert str(number) == "attention 25.6% (uniform: 25.0%; worst head: 50.0%)"
    assert str(Number("kept", 25, "", {"of": 1440})) == "kept 25 (of: 1,440)"
