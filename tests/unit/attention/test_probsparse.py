import math

import pytest
import torch

from forecast.attention.full import full_attention
from forecast.attention.probsparse import probsparse_attention, sample_size, sparsity_measure
from tests.support.attention_types import MEMORY_LEN, QUERY_LEN, heads
from tests.support.golden_answers import golden_tensors

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["probsparse_self", "probsparse_cross", "probsparse_causal_cumsum"])
def test_reference(name):
    data = golden_tensors(name)
    options = {key: data[key] for key in ("causal", "factor", "sample_index")}
    out = probsparse_attention(data["q"], data["k"], data["v"], ranking="published", lazy="sum", **options)
    torch.testing.assert_close(out, data["output"], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("head_dim", "length", "norm", "shared"),
    [
        (16, 96, 0.62, 0.55), (16, 336, 0.50, 0.32), (16, 1024, 0.45, 0.20), (64, 96, 0.46, 0.47),
        (64, 336, 0.32, 0.21), (64, 1024, 0.24, 0.10),
    ],
)  # fmt: skip
def test_top_queries_found_by_norm_and_by_a_shared_sample(head_dim, length, norm, shared):
    """Fractions of the exact measure's top u among random queries and keys, which docs/settings.md quotes."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 8, 8, length, head_dim)
    top = sample_size(5, length)

    def select(**options):
        best = sparsity_measure(q, k, **options).topk(top).indices
        return torch.zeros(q.shape[:3], dtype=torch.bool).scatter(2, best, True)

    exact = select(sample_index=torch.arange(length))
    found = [(select(**each) & exact).sum(-1) / top for each in ({"ranking": "norm"}, {"random": True})]
    assert [part.mean().item() for part in found] == pytest.approx([norm, shared], abs=0.01)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("given", ["one set", "per query"])
def test_measure_and_answer_against_loops(causal, given):
    memory_len = QUERY_LEN if causal else MEMORY_LEN
    q, k, v = heads(QUERY_LEN, memory_len)
    torch.manual_seed(5)
    limit = torch.arange(1, QUERY_LEN + 1)[:, None] if causal else memory_len
    index = (torch.rand(QUERY_LEN, 6) * limit).long()
    if given == "one set":
        index = index[-1:].expand(QUERY_LEN, -1)
    measure = sparsity_measure(q, k, causal=causal, sample_index=index if given == "per query" else index[0])
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(QUERY_LEN):
                seen = i + 1 if causal else memory_len
                scores = (k[b, h, :seen] @ q[b, h, i]).tolist()
                sampled = [j for j in index[i].tolist() if j < seen] + ([i] if causal else [])
                expected = max(scores[j] for j in sampled) - sum(scores) / seen
                assert measure[b, h, i].item() == pytest.approx(expected, abs=1e-10)

    out = probsparse_attention(q, k, v, causal=causal, factor=2, sample_index=index)
    top = measure.topk(2 * math.ceil(math.log(QUERY_LEN))).indices
    exact = full_attention(q, k, v, causal=causal)
    is_top = torch.zeros(q.shape[:3], dtype=torch.bool).scatter_(2, top, True)[..., None]
    for i in range(QUERY_LEN):
        lazy = v[:, :, : i + 1 if causal else None].mean(2)
        torch.testing.assert_close(out[:, :, i], torch.where(is_top[:, :, i], exact[:, :, i], lazy))


@pytest.mark.parametrize("sampling", ["shared", "per_query"])
@pytest.mark.parametrize("random", [False, True])
def test_causal_measure_and_answer_do_not_see_the_future(sampling, random):
    q, k, v = heads()
    top = torch.stack([torch.randperm(QUERY_LEN)[:11] for _ in range(15)]).reshape(*q.shape[:2], 11)

    def run(q, k, v):
        torch.manual_seed(2)
        measure = sparsity_measure(q, k, causal=True, sampling=sampling, random=random)
        return measure, probsparse_attention(q, k, v, causal=True, top_queries=top)

    before = run(q, k, v)
    for now in (0, 30, 63, 64, 70):
        later = [x.clone() for x in (q, k, v)]
        for x in later:
            x[:, :, now + 1 :] += 5 * torch.randn_like(x[:, :, now + 1 :])
        after = run(*later)
        for x, y in zip(before, after, strict=True):
            torch.testing.assert_close(x[:, :, : now + 1], y[:, :, : now + 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sampling", ["shared", "per_query"])
def test_all_queries_kept_is_full_attention(causal, sampling):
    q, k, v = heads(QUERY_LEN, QUERY_LEN if causal else MEMORY_LEN)
    out = probsparse_attention(q, k, v, causal=causal, factor=QUERY_LEN, sampling=sampling)
    torch.testing.assert_close(out, full_attention(q, k, v, causal=causal))


def test_all_keys_sampled_is_the_exact_measure():
    q, k, _ = heads(QUERY_LEN, MEMORY_LEN)
    scores = q @ k.mT
    exact = scores.amax(-1) - scores.mean(-1)
    for random in (False, True):
        torch.testing.assert_close(sparsity_measure(q, k, factor=MEMORY_LEN, random=random), exact)
    torch.testing.assert_close(sparsity_measure(q, k, factor=MEMORY_LEN, sampling="per_query"), exact)


@pytest.mark.parametrize("sampling", ["shared", "per_query"])
def test_training_draws_from_the_global_generator(sampling):
    q, k, _ = heads(QUERY_LEN, MEMORY_LEN)

    def measure(seed):
        torch.manual_seed(seed)
        return sparsity_measure(q, k, factor=1, sampling=sampling, random=True)

    torch.testing.assert_close(measure(1), measure(1), rtol=0, atol=0)
    assert not torch.allclose(measure(1), measure(2))
