"""Captions of the pictures of one attention layer."""

import numpy as np
import pandas as pd
import torch

from forecast.attention import FullAttention
from forecast.models.attention_layers import AttentionLayer
from forecast.tools.explain.layer import Layer
from forecast.tools.explain.record_calls import Call
from forecast.tools.explain.timeline import Timeline


def test_the_caption_names_what_the_model_says_stands_in_the_horizon() -> None:
    """Also of a model of the user's own, whatever its positions are."""
    steps, dates = np.arange(6), pd.date_range("2024-01-01", periods=6, freq="h")
    x = torch.zeros(1, 2, 6, 4)
    call = Call("decoder.0.attention", FullAttention(8, 2, role="self"), x, x, x, x)
    place = AttentionLayer(call.name, "decoder", 0, steps, steps)
    for patch_len in (None, 3):
        positions = Timeline(steps, dates, seq_len=4, patch_len=patch_len)
        layer = Layer(call, place, positions, positions, [0, 1], recent=2, horizon_input="last week's values")
        assert "the horizon after it enters as last week's values." in layer.notes()
