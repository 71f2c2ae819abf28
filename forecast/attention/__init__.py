"""Five attention types with one interface: see `base.Attention`."""

from forecast.attention.base import Attention, Role
from forecast.attention.fastformer import FastformerAttention
from forecast.attention.full import FullAttention
from forecast.attention.linear import LinearAttention
from forecast.attention.nystrom import NystromAttention
from forecast.attention.probsparse import ProbSparseAttention

__all__ = [
    "Attention",
    "FastformerAttention",
    "FullAttention",
    "LinearAttention",
    "NystromAttention",
    "ProbSparseAttention",
    "Role",
]
