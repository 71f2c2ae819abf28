"""What a date says, learnt: the time features of a step as a vector."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.dropout import Dropout

HARMONICS = 4
HIDDEN = 64
BLUR = {"day of year": 0.06, "week of year": 0.06, "day of month": 0.07}
"""Time features that would name a day, and the deviation of the shifts that keep them from it, in ranges."""


class CalendarEmbedding(nn.Module):
    """Time features f in [−½, ½] → f, sin(πkf), cos(πkf) for k ≤ 4 → a hidden layer → (d_calendar).

    The waves let a shallow network draw an hour's or a weekday's profile; the hidden layer joins hour, weekday and
    holiday into one. Covariates, which come after the calendar's features and may be of any size, have no waves.

    In training the features of `BLUR` are off by normal shifts, the same for a window's past and horizon: with a few
    years of data they would name each day, and its errors be learnt by heart.
    """

    is_calendar: Tensor

    def __init__(self, n_time_features: int, d_calendar: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_time_features * (1 + 2 * HARMONICS), HIDDEN)
        self.out = nn.Linear(HIDDEN, d_calendar)
        self.dropout = Dropout(dropout)
        self.blur: dict[int, float] = {}
        self.register_buffer("is_calendar", torch.ones(n_time_features))

    def tell(self, names: Sequence[str]) -> None:
        """The names of the calendar's features, which come first: which of them to blur, and how many there are."""
        self.is_calendar[len(names) :] = 0
        self.blur = {names.index(name): width for name, width in BLUR.items() if name in names}

    def forward(
        self, time_features: Float[Tensor, "batch length n_time_features"]
    ) -> Float[Tensor, "batch length d_calendar"]:
        f = time_features
        if self.training and self.blur:
            shift = torch.zeros(f.shape[0], 1, f.shape[2], device=f.device, dtype=f.dtype)
            for feature, width in self.blur.items():
                shift[..., feature].normal_(std=width)
            f = f + shift
        angles = f[..., None] * (math.pi * torch.arange(1, HARMONICS + 1, device=f.device))
        waves = (self.is_calendar[:, None] * wave(angles) for wave in (torch.sin, torch.cos))
        read = torch.cat([f, *(wave.flatten(-2) for wave in waves)], dim=-1)
        return self.out(self.dropout(F.gelu(self.hidden(read))))
