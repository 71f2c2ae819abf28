"""The recorded layers, and where their positions lie in time, against what the blocks themselves read."""

from typing import Any

import pandas as pd
import pytest
import torch

from forecast.models import Informer, InformerStack, ResidualInformer
from forecast.tools.explain.maps import list_layers, record_calls
from tests.support.models import slots

pytestmark = pytest.mark.slow

SIZES: dict[str, Any] = {"n_features": 3, "n_targets": 2, "n_time_features": 4, "d_model": 8, "n_heads": 2, "d_ff": 8}


def recorded(model: type[Informer] | type[ResidualInformer], seq_len: int, attention_type: str = "full", **settings):
    torch.manual_seed(0)
    sizes: dict[str, Any] = {**SIZES, "label_len": 7, "pred_len": 5, **settings}
    network = model(seq_len=seq_len, attention=slots(attention_type), **sizes).eval()
    inputs = torch.randn(1, seq_len, 3), torch.randn(1, seq_len, 4), torch.randn(1, 5, 4)
    forecast, calls = record_calls(network, *inputs)
    dates = pd.date_range("2024-01-01", periods=seq_len + 5, freq="h")
    layers = list_layers(network, calls, dates, seq_len, ("a", "b", "c"))
    places = {layer.call.name: (layer.queries, layer.keys) for layer in layers}
    for call in calls:  # every position has a step
        assert tuple(map(len, places[call.name])) == (call.q.shape[2], call.k.shape[2]), call.name
    return forecast, calls, places


def test_a_patch_is_centred_on_its_middle_step() -> None:
    """23 steps in patches of 4 leave the first three out; 5 to forecast are two patches, the second of one step."""
    _, _, places = recorded(ResidualInformer, 23, patch_len=4, encoder_layers=2, decoder_layers=2)
    past, decoded = places["encoder.layers.1.attention"][0], places["decoder.0.attention"][0]
    assert past.steps.tolist() == [5, 9, 13, 17, 21]
    assert decoded.steps.tolist() == [21, 25, 27]  # of the last 7 steps one whole patch
    assert decoded.origin == 0.5


@pytest.mark.parametrize("attention_type", ["full", "fastformer"])
def test_the_dates_of_a_distilled_layer_and_of_a_stack(attention_type: str) -> None:
    _, _, places = recorded(InformerStack, 16, attention_type, encoder_layers=3)
    assert places["encoder.encoders.0.layers.2.attention"][0].steps.tolist() == [0, 4, 8, 12]
    assert places["encoder.encoders.1.layers.1.attention"][0].steps.tolist() == [8, 10, 12, 14]
    assert places["encoder.encoders.2.layers.0.attention"][0].steps.tolist() == [12, 13, 14, 15]
    asks, memory = places["decoder.0.cross"]
    assert memory.steps.tolist() == [0, 4, 8, 12, 8, 10, 12, 14, 12, 13, 14, 15]
    assert [list(s) for s in memory.stretches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert str(asks.when[0]) == "2024-01-01 16:00:00"  # the horizon alone asks
    assert asks.origin is None
    assert places["decoder.0.attention"][0].origin == 6.5


def test_watching_changes_nothing_and_ends() -> None:
    forecast, calls, _ = recorded(Informer, 23, "linear", share_layers=True, encoder_layers=2)
    torch.manual_seed(0)
    again = Informer(
        seq_len=23, label_len=7, pred_len=5, attention=slots("linear"), share_layers=True, encoder_layers=2,
        **SIZES,
    ).eval()  # fmt: skip
    with torch.no_grad():
        expected = again(torch.randn(1, 23, 3), torch.randn(1, 23, 4), torch.randn(1, 5, 4))
    torch.testing.assert_close(forecast, expected, rtol=0, atol=0)
    names = [call.name for call in calls]
    assert names == [
        "encoder.layers.0.attention", "encoder.layers.1.attention", "decoder.0.attention", "decoder.0.cross"
    ]  # fmt: skip
    assert calls[0].attention is calls[1].attention
    assert all("mix" not in vars(call.attention) for call in calls)
