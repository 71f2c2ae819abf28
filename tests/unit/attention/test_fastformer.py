import torch

from forecast.attention import FastformerAttention
from tests.support.golden_answers import golden_tensors


def test_reference():
    data = golden_tensors("fastformer_self")
    n_heads, x = data["n_heads"], data["x"]
    layer = FastformerAttention(x.shape[-1], n_heads, role="self").double()
    with torch.no_grad():
        layer.in_projection.weight.copy_(torch.cat([data["w_query"], data["w_key"]]))
        layer.in_projection.bias.copy_(torch.cat([data["b_query"], data["b_key"]]))
        layer.out_projection.weight.copy_(data["w_transform"])
        layer.out_projection.bias.copy_(data["b_transform"])
        layer.query_logit.copy_(data["query_logit"])
        layer.key_logit.copy_(data["key_logit"])
    torch.testing.assert_close(layer(x, x), data["output"], rtol=0, atol=1e-10)
