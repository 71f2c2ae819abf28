"""Sizes and choices that models refuse, with the text of each message."""

from pathlib import Path
from typing import Any

import pytest

from forecast.models import Informer, InformerStack, ResidualInformer, ResidualMLP
from tests.support.models import slots
from tests.support.refusals import Refusal, describe_options

SIZES: dict[str, Any] = {
    "n_features": 5, "n_targets": 2, "n_time_features": 3, "seq_len": 23, "label_len": 11, "pred_len": 7, "d_model": 12,
    "n_heads": 4, "d_ff": 18,
}  # fmt: skip
MLP: dict[str, Any] = {
    "n_features": 5, "n_targets": 2, "n_time_features": 3, "seq_len": 38, "pred_len": 17, "d_hidden": 12,
}  # fmt: skip


def informer(model: type, says: str, **sizes: Any) -> Refusal:
    what = f"{model.__name__} {describe_options(sizes)}"
    return Refusal(
        what, says, ValueError, lambda folder: model(attention=slots("full"), **{**SIZES, **sizes})
    )


def mlp(says: str, **sizes: Any) -> Refusal:
    what = f"ResidualMLP {describe_options(sizes)}"
    return Refusal(what, says, ValueError, lambda folder: ResidualMLP(**{**MLP, **sizes}))


REFUSED = [
    informer(Informer, "label_len=24 must lie between 0 and seq_len=23: set label_len=11", label_len=24),
    informer(Informer, "pred_len=0 must be a whole number of at least 1", pred_len=0),
    informer(Informer, "d_model 13 is not divisible by n_heads 4 into whole heads", d_model=13),
    informer(Informer, "dropout=1.0 must be at least 0 and below 1", dropout=1.0),
    informer(InformerStack, "seq_len=3 cannot be halved for a stack of 3 encoders", seq_len=3, label_len=1, encoder_layers=3),
    informer(ResidualInformer, "patch_len=0 must be a whole number of at least 1", patch_len=0),
    informer(ResidualInformer, "tokens must be one of mixed, independent, joint, not 'own'", tokens="own"),
    mlp("d_hidden=0 must be a whole number of at least 1", d_hidden=0),
    mlp("tokens must be one of mixed, independent, not 'joint'", tokens="joint"),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
