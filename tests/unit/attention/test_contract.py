import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from forecast.attention import ProbSparseAttention
from tests.support.attention_types import (
    BATCH,
    CASES,
    D_MODEL,
    HEAD_DIM,
    HEADS,
    READING_CASES,
    build,
    inputs,
    reads_query,
)
from tests.support.long_variants import every_nth

pytestmark = pytest.mark.slow

# Error of a layer in half precision against float64, relative to the output's largest entry.
HALF_ERROR = {torch.bfloat16: 1.2e-2, torch.float16: 2e-3}


def largest_error(attention_type: type, options: dict, out: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Of most rows with ProbSparse, where rounding changes the ranks, and with relu, where weights may be almost 0."""
    errors = (out - exact).abs().amax(-1)
    unsteady = attention_type is ProbSparseAttention or options.get("feature_map") == "relu"
    return errors.quantile(0.7) if unsteady else errors.max()


@pytest.mark.parametrize(("attention_type", "role", "options"), READING_CASES)
class TestReading:
    def test_every_parameter_and_both_inputs_receive_a_gradient(self, attention_type, role, options):
        layer = build(attention_type, role, options).double()
        query, memory = inputs(role)
        query.requires_grad_()
        memory.requires_grad_()
        out = layer(query, memory)
        assert out.shape == query.shape
        out.square().sum().backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name
        assert (query.grad is not None) == reads_query(attention_type, role)
        assert memory.grad is not None
        assert memory.grad.abs().amax(-1).min() > 0  # no step of the memory is left out

    def test_one_sample_does_not_touch_the_others(self, attention_type, role, options):
        layer = build(attention_type, role, options).double().eval()
        query, memory = inputs(role)
        before = layer(query, memory)
        query[1] += 100  # in role self and causal this is the memory too
        memory[1] += 100
        after = layer(query, memory)
        torch.testing.assert_close(after[[0, 2]], before[[0, 2]])
        assert not torch.allclose(after[1], before[1])
        torch.testing.assert_close(layer(query[2:], memory[2:] if role == "cross" else query[2:]), before[2:])

    def test_dropout_acts_in_training_only(self, attention_type, role, options):
        layer = build(attention_type, role, options, dropout=0.5).double()
        query, memory = inputs(role)
        torch.manual_seed(1)
        first = layer(query, memory)
        torch.manual_seed(1)
        torch.testing.assert_close(layer(query, memory), first)
        assert not torch.allclose(layer(query, memory), first)


@pytest.mark.parametrize(("attention_type", "role", "options"), CASES)
class TestContract:
    def test_no_windows_at_all_go_through(self, attention_type, role, options):
        """What the last batch of a split leaves to some of several processes."""
        layer = build(attention_type, role, options).eval()
        query, memory = (part[:0] for part in inputs(role, torch.float32))
        with torch.inference_mode():
            assert layer(query, memory).shape == query.shape

    def test_evaluation_is_deterministic_and_draws_nothing(self, attention_type, role, options):
        layer = build(attention_type, role, options, dropout=0.3).double().eval()
        query, memory = inputs(role)
        before = layer(query, memory)
        state = torch.get_rng_state()
        torch.testing.assert_close(layer(query, memory), before, rtol=0, atol=0)
        assert torch.equal(torch.get_rng_state(), state)

    @pytest.mark.parametrize("length", every_nth([1, 2, 7, 97], 3))
    def test_any_length(self, attention_type, role, options, length):
        layer = build(attention_type, role, options)
        query, memory = inputs(role, torch.float32, length)
        for mode in (True, False):
            layer.train(mode)
            out = layer(query, memory)
            assert out.shape == (BATCH, length, D_MODEL)
            assert out.isfinite().all()

    @pytest.mark.parametrize("dtype", every_nth([torch.bfloat16, torch.float16], 2))
    def test_half_precision(self, attention_type, role, options, dtype):
        layer = build(attention_type, role, options).eval()
        query, memory = inputs(role, dtype)
        half = layer.to(dtype)(query, memory)
        assert half.dtype == dtype
        exact = layer.double()(query.double(), memory.double() if role == "cross" else query.double())
        assert largest_error(attention_type, options, half, exact) < HALF_ERROR[dtype] * exact.abs().max()

    def test_autocast(self, attention_type, role, options):
        """A compiled model runs its backward pass under the autocast of its forward pass."""
        layer = build(attention_type, role, options).eval()
        query, memory = inputs(role, torch.float32)
        query.requires_grad_()
        exact = layer(query, memory).detach()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = layer(query, memory)
            out.float().square().sum().backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)
        assert out.dtype == torch.bfloat16
        # a head with output_norm may have almost no output to divide, and rounded inputs change its direction
        allowed = HALF_ERROR[torch.bfloat16] * (1.5 if "output_norm" in options else 1)
        assert largest_error(attention_type, options, out, exact) < allowed * exact.abs().max()

    @pytest.mark.parametrize("scale", every_nth([1e4, 1e2], 2))
    def test_large_logits_stay_finite(self, attention_type, role, options, scale):
        layer = build(attention_type, role, options)
        query, memory = inputs(role, torch.float32)
        query = (query * scale).requires_grad_()
        out = layer(query, memory * scale if role == "cross" else query)
        out.sum().backward()
        assert out.isfinite().all()
        assert (query.grad is not None) == reads_query(attention_type, role)
        assert query.grad is None or query.grad.isfinite().all()

    def test_largest_tensor_grows_linearly(self, attention_type, role, options):
        longer, shorter = (_largest_tensor(attention_type, role, options, length) for length in (2048, 512))
        assert longer < 4.7 * shorter

    def test_gradients_are_those_of_the_function(self, attention_type, role, options, monkeypatch):
        monkeypatch.setattr("forecast.attention.prefix_sums.CHUNK", 3)
        monkeypatch.setattr("forecast.attention.nystrom.CHUNK", 3)
        monkeypatch.setattr("forecast.attention.gated_delta.CHUNK_LIMITS", (4, 4))
        if "num_landmarks" in options:
            options = options | {"num_landmarks": 3}
        layer = build(attention_type, role, options).double().eval()
        torch.manual_seed(3)
        lengths = (8, 10, 10) if role == "cross" else (8, 8, 8)
        q, k, v = (torch.randn(1, HEADS, n, HEAD_DIM, dtype=torch.float64, requires_grad=True) for n in lengths)
        assert torch.autograd.gradcheck(layer.mix, (q, k, v), fast_mode=True)


# ProbSparse's choice of rows does see the future, as its docstring says: tests/unit/attention/test_probsparse.py
@pytest.mark.parametrize(
    ("attention_type", "role", "options"),
    [case for case in CASES if case.values[1] == "causal" and case.values[0] is not ProbSparseAttention],
)
def test_causal_outputs_do_not_see_the_future(attention_type, role, options):
    layer = build(attention_type, role, options).double().eval()
    query, _ = inputs(role)
    before = layer(query, query)
    for now in (0, 30, 63, 64, 70):
        changed = query.clone()
        changed[:, now + 1 :] += 3 * torch.randn_like(changed[:, now + 1 :])
        after = layer(changed, changed)
        torch.testing.assert_close(after[:, : now + 1], before[:, : now + 1], rtol=1e-12, atol=1e-12)
        assert not torch.allclose(after[:, now + 1 :], before[:, now + 1 :])


class _Largest(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
            self.numel = max([self.numel, *sizes])
        return out


def _largest_tensor(attention_type, role, options, length: int) -> int:
    layer = build(attention_type, role, options)
    query = torch.randn(1, length, D_MODEL, requires_grad=True)
    memory = torch.randn(1, length, D_MODEL, requires_grad=True) if role == "cross" else query
    with _Largest() as largest:
        layer(query, memory).sum().backward()
    return largest.numel
