"""Numbers of an attention map, each a mean over heads beside what an even map would give."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Number:
    """What was measured, and the values to read it beside, by name."""

    what: str
    value: float | int  # an int is a count
    unit: str = ""  # "%" shows a share of 1 in per cent
    beside: dict[str, float | int] = field(default_factory=dict)

    def __str__(self) -> str:
        others = "; ".join(f"{name}: {self._show(value)}" for name, value in self.beside.items())
        return f"{self.what} {self._show(self.value)}" + (f" ({others})" if others else "")

    def _show(self, value: float | int) -> str:
        if self.unit == "%":
            return f"{100 * value:.1f}%"
        return f"{value:,}" if isinstance(value, int) else f"{value:.2f} {self.unit}".strip()


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def row_bits(weights: Float[Tensor, "rows memory_len"]) -> float:
    """Mean entropy of the rows in bits: log2 of how many positions a row spreads evenly over."""
    share = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return float(torch.special.entr(share).sum(-1).mean()) / torch.log(torch.tensor(2.0)).item()


def share_within(weights: Float[Tensor, "rows memory_len"], chosen: Bool[Tensor, " memory_len"]) -> float:
    """The share of a mean row's weight that lies on the chosen positions."""
    return float(weights[:, chosen].sum() / weights.sum())


def relative_error(found: Float[Tensor, "*shape"], exact: Float[Tensor, "*shape"]) -> float:
    """‖found − exact‖ / ‖exact‖, root sums of squares (Frobenius)."""
    return float((found - exact).norm() / exact.norm())


def negative_part(weights: Float[Tensor, "*shape"]) -> float:
    """Σ|w| over the negative weights, over Σ|w| of all."""
    return float(weights.clamp(max=0).abs().sum() / weights.abs().sum())


def overlap(kept: Int[Tensor, " top"], best: Int[Tensor, " top"]) -> float:
    """The share of `best` that was kept."""
    return float(torch.isin(best, kept).float().mean())
