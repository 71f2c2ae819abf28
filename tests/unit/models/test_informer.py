import re
from functools import partial
from typing import Any

import pytest
import torch

from forecast.models import Informer, InformerStack
from tests.support.golden_answers import golden
from tests.support.models import ATTENTION_TYPES, slots, without_gradient

pytestmark = pytest.mark.slow

# All sizes distinct, so that no swapped axis can pass.
SIZES: dict[str, Any] = {
    "n_features": 5, "n_targets": 2, "n_time_features": 3, "seq_len": 23, "label_len": 11, "pred_len": 7, "d_model": 12,
    "n_heads": 4, "d_ff": 18,
}  # fmt: skip
BATCH = 6


def informer(kind: str = "full", cls: type[Informer] = Informer, cross: str = "full", **sizes) -> Informer:
    torch.manual_seed(0)
    return cls(attention=slots(kind, cross), **{**SIZES, **sizes})


def inputs(batch: int = BATCH) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (
        torch.randn(batch, SIZES["seq_len"], SIZES["n_features"]),
        torch.randn(batch, SIZES["seq_len"], SIZES["n_time_features"]),
        torch.randn(batch, SIZES["pred_len"], SIZES["n_time_features"]),
    )


NAMES = {
    "^enc_embedding": "past_embedding", "^dec_embedding": "future_embedding", r"value_embedding\.tokenConv": "values",
    r"temporal_embedding\.embed": "time", "attn_layers": "layers", "conv_layers": "distils", "downConv": "conv",
    "self_attention": "attention", "cross_attention": "cross", "conv1": "feed_forward.expand",
    "conv2": "feed_forward.contract", r"^decoder\.layers": "decoder", r"^decoder\.norm": "norm", "^projection": "head",
}  # fmt: skip
"""Parts of names of the reference implementation, and ours."""


def reference_weights(arrays: dict) -> dict[str, torch.Tensor]:
    ours = {}
    for name in (name for name in arrays if name.startswith("state/")):
        mine = name.removeprefix("state/")
        for theirs, part in NAMES.items():
            mine = re.sub(theirs, part, mine)
        ours[mine] = torch.from_numpy(arrays[name])
    for name in list(ours):
        if re.search(r"feed_forward\.\w+\.weight", name):
            ours[name] = ours[name].squeeze(-1)  # of a convolution
        elif "query_projection" in name:
            parts = [ours.pop(name.replace("query", part)) for part in ("query", "key", "value")]
            ours[name.replace("query", "in")] = torch.cat(parts)
        elif name.endswith("time.bias"):  # beside the bias of the values; the two only ever add
            ours[name.replace("time", "values")] += ours.pop(name)
    return ours


PUBLISHED = {"sampling": "per_query", "ranking": "published", "lazy": "sum"}


@pytest.mark.parametrize(
    "name",
    ["informer_full", "informer_full_nodistil", "informer_stack", "informer_probsparse", "informer_stack_probsparse"],
)
def test_equals_the_reference_with_its_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ProbSparse attention draws keys at random: ours gets these in the order of the layers."""
    arrays = golden(name)
    drawn = [torch.from_numpy(arrays[key]).long() for key in sorted(arrays) if key.startswith("sample_index/")]
    monkeypatch.setattr("forecast.attention.probsparse._draw", lambda *_: drawn.pop(0))
    attention: Any = slots("probsparse" if drawn else "full")
    if drawn:
        options = {**PUBLISHED, "factor": int(arrays["factor"])}
        attention |= {slot: partial(attention[slot], **options) for slot in ("encoder", "decoder")}
    layers = arrays["encoder_layers"].tolist()
    stack = isinstance(layers, list)
    d_model = arrays["state/projection.weight"].shape[1]
    named = ("seq_len", "label_len", "pred_len", "n_heads", "decoder_layers")
    sizes: dict[str, Any] = {key: int(arrays[key]) for key in named}
    model = (InformerStack if stack else Informer)(
        n_features=arrays["past"].shape[-1], n_targets=arrays["output"].shape[-1],
        n_time_features=arrays["past_time"].shape[-1], **sizes, encoder_layers=layers[0] if stack else layers,
        distil=bool(arrays["distil"]), attention=attention, mix_heads=bool(drawn), d_model=d_model,
        d_ff=arrays["state/decoder.layers.0.conv1.weight"].shape[0],
    ).double()  # fmt: skip
    model.load_state_dict(reference_weights(arrays))
    output = model.eval()(*(torch.from_numpy(arrays[k]) for k in ("past", "past_time", "future_time")))
    torch.testing.assert_close(output, torch.from_numpy(arrays["output"]), atol=1e-10, rtol=1e-10)
    assert not drawn


@pytest.mark.parametrize("drops", [False, True])
def test_drop_weights_drops_those_of_softmax_and_nothing_else(drops: bool) -> None:
    layer: Any = informer("linear", dropout=0.5, drop_weights=drops).decoder[0]
    x, (q, k) = torch.randn(2, 30, SIZES["d_model"]), torch.randn(2, 2, 4, 30, 3)
    assert torch.equal(layer.attention(x, x), layer.attention(x, x)) == drops
    v = torch.randn(2, 4, 30, 1).expand(-1, -1, -1, 3)
    mixed = layer.cross.mix(q, k, v)
    assert torch.equal(mixed, layer.cross.mix(q, k, v)) != drops
    torch.testing.assert_close(mixed, mixed[..., :1].expand_as(mixed))  # a weight, not a channel, is dropped


@pytest.mark.parametrize("cls", [Informer, InformerStack])
@pytest.mark.parametrize("kind", ATTENTION_TYPES)
def test_every_parameter_learns_and_windows_are_independent(kind: str, cls: type[Informer]) -> None:
    model, x = informer(kind, cls, encoder_layers=2, decoder_layers=2).double(), [x.double() for x in inputs()]
    output = model(*x)
    assert output.shape == (BATCH, SIZES["pred_len"], SIZES["n_targets"])
    (output * torch.randn_like(output)).sum().backward()
    assert without_gradient(model) == []
    model.eval()
    alone = torch.cat([model(*(part[i : i + 1] for part in x)) for i in range(BATCH)])
    torch.testing.assert_close(model(*x), alone)


@pytest.mark.parametrize("cross", ["full", "linear"])
def test_leaving_unwanted_decoder_positions_out_changes_nothing(cross: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = informer(cross=cross, decoder_layers=2).eval()
    short = model(*inputs())
    monkeypatch.setattr(ATTENTION_TYPES[cross], "independent_queries", False)
    torch.testing.assert_close(model(*inputs()), short, atol=1e-6, rtol=1e-5)


def test_share_layers_shares_attention_and_nothing_else() -> None:
    alone, shared = informer(encoder_layers=3), informer(encoder_layers=3, share_layers=True)
    layers = shared.encoder.layers
    assert layers[0].attention is layers[2].attention
    assert layers[0].feed_forward is not layers[2].feed_forward
    saved = sum(p.numel() for p in alone.parameters()) - sum(p.numel() for p in shared.parameters())
    assert saved == 2 * sum(p.numel() for p in layers[0].attention.parameters())
