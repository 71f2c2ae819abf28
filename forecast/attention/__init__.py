"""Seven attention types and two controls with one interface: see `base.Attention`."""

from forecast.attention.base import Attention, Curves, Role
from forecast.attention.controls import NoneAttention, UniformAttention
from forecast.attention.fastformer import FastformerAttention
from forecast.attention.full import FullAttention
from forecast.attention.gated_delta import GatedDeltaAttention
from forecast.attention.linear import LinearAttention
from forecast.attention.nystrom import NystromAttention
from forecast.attention.probsparse import ProbSparseAttention
from forecast.attention.sliding_window import SlidingWindowAttention

__all__ = [
    "Attention",
    "Curves",
    "FastformerAttention",
    "FullAttention",
    "GatedDeltaAttention",
    "LinearAttention",
    "NoneAttention",
    "NystromAttention",
    "ProbSparseAttention",
    "Role",
    "SlidingWindowAttention",
    "UniformAttention",
]
