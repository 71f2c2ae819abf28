"""Equality of nested values that hold tensors."""

from typing import Any

import torch
from torch import Tensor


def is_equal(one: Any, other: Any) -> bool:
    """Whether two nested values are equal, tensors included."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(is_equal(one[k], other[k]) for k in one)
        )
    return one == other
