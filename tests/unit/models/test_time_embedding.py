"""The time embedding's waves against the sines and cosines that its docstring promises."""

import math

import torch

from forecast.models.embedding import HARMONICS, TimeEmbedding


def test_waves_are_sines_and_cosines_of_calendar_features_only() -> None:
    embedding = TimeEmbedding(3, 8, dropout=0.0)
    embedding.set_calendar_features(["hour", "day of week"])
    f = torch.rand(2, 50, 3, generator=torch.Generator().manual_seed(1)) - 0.5
    angles = (f[..., None] * (math.pi * torch.arange(1, HARMONICS + 1))).flatten(2)
    is_calendar = torch.tensor([1.0, 1, 0]).repeat_interleave(HARMONICS)
    expected = embedding.hidden(
        torch.cat([f, angles.sin() * is_calendar, angles.cos() * is_calendar], dim=-1)
    )
    torch.testing.assert_close(embedding._embed_waves(f), expected)
