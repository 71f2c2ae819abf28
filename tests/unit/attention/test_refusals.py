from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from forecast.attention import (
    FastformerAttention,
    FullAttention,
    LinearAttention,
    NystromAttention,
    ProbSparseAttention,
)
from forecast.attention.fastformer import additive_attention
from forecast.attention.full import full_attention
from forecast.attention.gated_delta import delta_rule
from forecast.attention.linear import linear_attention
from forecast.models import InformerStack, ResidualInformer, ResidualMLP
from tests.support.attention_types import HEAD_DIM, HEADS, build, heads, inputs
from tests.support.models import slots
from tests.support.refusals import Refusal, describe_options


def refused(what: str, says: str, call: Callable[[], object]) -> Refusal:
    return Refusal(what, says, ValueError, lambda folder: call())


def additive(interaction: str, weighted: bool) -> torch.Tensor:
    """Additive attention with or without the weight that `interaction="concat"` needs."""
    logit = torch.randn(HEADS, HEAD_DIM, dtype=torch.float64)
    weight = torch.randn(HEADS, HEAD_DIM, 2 * HEAD_DIM, dtype=torch.float64) if weighted else None
    return additive_attention(*heads(7, 7), query_logit=logit, key_logit=logit, interaction=interaction, concat_weight=weight)  # fmt: skip


OPTIONS = [
    refused("role", "attention role must be one of self, causal, cross, not 'both'", lambda: FullAttention(20, 5, role="both")),
    refused("causal nystrom", "nystrom attention cannot serve role 'causal'; it serves self, cross", lambda: NystromAttention(20, 5, role="causal")),
    refused("fastformer as cross-attention", "fastformer attention cannot serve role 'cross'; it serves self, causal", lambda: FastformerAttention(20, 5, role="cross")),
    refused("ranking", "probsparse ranking must be one of measure, published, norm, not 'some'", lambda: ProbSparseAttention(20, 5, role="self", ranking="some")),
    refused("num_features without favor", "linear num_features needs feature_map=favor, not 'elu'", lambda: LinearAttention(20, 5, role="self", num_features=8)),
    refused("eps", "linear eps must be positive, not 0.0", lambda: LinearAttention(20, 5, role="self", eps=0.0)),
    refused("num_landmarks", "num_landmarks=0 must be a whole number of at least 1", lambda: NystromAttention(20, 5, role="self", num_landmarks=0)),
    refused("conv_kernel of cross-attention", "nystrom conv_kernel must be null in role 'cross': a convolution needs one length", lambda: NystromAttention(20, 5, role="cross", conv_kernel=33)),
    refused("an even conv_kernel", "nystrom conv_kernel must be auto, null or an odd number, not 32", lambda: NystromAttention(20, 5, role="self", conv_kernel=32)),
    refused("interaction", "fastformer interaction must be one of product, add, concat, not 'sum'", lambda: FastformerAttention(20, 5, role="self", interaction="sum")),
]  # fmt: skip
TENSORS = [
    refused("self-attention of two lengths", "role 'self' mixes one sequence with itself, but query has 79 steps and memory 131", lambda: build(FullAttention, "self", {})(*inputs("cross", torch.float32))),
    refused("causal full_attention of two lengths", "self and causal attention need one length, not 5 queries and 7 keys", lambda: full_attention(*heads(5, 7), causal=True)),
    refused("delta rule of two lengths in role self", "self and causal attention need one length, not 5 queries and 7 keys", lambda: delta_rule(*heads(5, 7), role="self")),
    refused("role of the delta rule", "delta rule role must be one of self, causal, cross, not 'both'", lambda: delta_rule(*heads(), role="both")),
    refused("concat without a weight", "interaction 'concat' without a concat_weight: concat needs one, the others take none", lambda: additive("concat", weighted=False)),
    refused("elu with a projection", "feature map 'elu' with a projection: favor needs one, the others take none", lambda: linear_attention(*heads(), feature_map="elu", projection=torch.ones(7, HEAD_DIM, dtype=torch.float64))),
]  # fmt: skip


def model(cls: Callable[..., object], says: str, **sizes: Any) -> Refusal:
    given: dict[str, Any] = {"n_features": 5, "n_targets": 2, "n_time_features": 3, "seq_len": 23, "pred_len": 7}
    if cls is not ResidualMLP:
        given |= {"attention": slots("full"), "label_len": 1, "d_model": 12, "n_heads": 4, "d_ff": 18}
    return refused(describe_options(sizes), says, lambda: cls(**{**given, **sizes}))


MODELS = [
    model(InformerStack, "seq_len=3 cannot be halved for a stack of 3 encoders", seq_len=3, encoder_layers=3),
    model(ResidualInformer, "patch_len=0 must be a whole number of at least 1", patch_len=0),
    model(ResidualInformer, "tokens must be one of mixed, independent, joint, not 'own'", tokens="own"),
    model(ResidualMLP, "tokens must be one of mixed, independent, not 'joint'", tokens="joint"),
]


@pytest.mark.parametrize("refusal", [*OPTIONS, *TENSORS, *MODELS], ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
