"""The time embedding's waves against the sines and cosines that its docstring promises."""

import math

import torch

from forecast.models.time_embedding import HARMONICS, TimeEmbedding


def test_waves_are_sines_and_cosines_of_calendar_features_only() -> None:
    embedding = TimeEmbedding(3, 8, dropout=0.0)
    embedding.set_calendar_features(["hour", "day of week"])
    f = torch.rand(2, 50, 3, generator=torch.Generator().manual_seed(1)) - 0.5
    angles = f[..., None] * (math.pi * torch.arange(1, HARMONICS + 1))
    for found, wave in zip(embedding._waves(f).chunk(2, dim=-1), (torch.sin, torch.cos), strict=True):
        found = found.unflatten(-1, (3, HARMONICS))
        torch.testing.assert_close(found[..., :2, :], wave(angles)[..., :2, :], rtol=0, atol=1e-6)
        assert (found[..., 2, :] == 0).all()
