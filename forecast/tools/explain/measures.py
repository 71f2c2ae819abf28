"""Numbers that summarise an attention map."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Number:
    """A measured value.

    Attributes:
        what: name of the quantity.
        value: a count if it is an int.
        unit: "%" shows the fraction 1 as 100%.
        beside: reference values by name.
    """

    what: str
    value: float | int
    unit: str = ""
    beside: dict[str, float | int] = field(default_factory=dict)

    def __str__(self) -> str:
        others = "; ".join(f"{name}: {self._format(value)}" for name, value in self.beside.items())
        return f"{self.what} {self._format(self.value)}" + (f" ({others})" if others else "")

    def _format(self, value: float | int) -> str:
        if self.unit == "%":
            return f"{100 * value:.1f}%"
        return f"{value:,}" if isinstance(value, int) else f"{value:.2f} {self.unit}".strip()


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def row_entropy(weights: Float[Tensor, "rows memory_len"]) -> float:
    """Mean entropy of the rows in bits; uniform attention to n positions has log2(n)."""
    normalised = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return float(torch.special.entr(normalised).sum(-1).mean()) / torch.log(torch.tensor(2.0)).item()


def weight_within(weights: Float[Tensor, "rows memory_len"], chosen: Bool[Tensor, " memory_len"]) -> float:
    """The fraction of all weight that lies on the chosen positions."""
    return float(weights[:, chosen].sum() / weights.sum())


def relative_error(found: Float[Tensor, "*shape"], exact: Float[Tensor, "*shape"]) -> float:
    """‖found − exact‖ / ‖exact‖ in the Frobenius norm."""
    return float((found - exact).norm() / exact.norm())


def negative_part(weights: Float[Tensor, "*shape"]) -> float:
    """Σ|w| over the negative weights, divided by Σ|w| over all weights."""
    return float(weights.clamp(max=0).abs().sum() / weights.abs().sum())


def overlap(selected: Int[Tensor, " top"], best: Int[Tensor, " top"]) -> float:
    """The fraction of `best` that is among `selected`."""
    return float(torch.isin(best, selected).float().mean())
