import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from forecast.attention.dropout import RARE, Dropout, apply_after_dropped_gelu, dropout

pytestmark = pytest.mark.slow

TRIALS = 200_000


def is_dropped(*shape: int, p: float) -> torch.Tensor:
    return dropout(torch.ones(shape), p, True) == 0


def rounded(p: float) -> float:
    return round(p * 256) / 256 if min(p, 1 - p) >= RARE else p


@pytest.mark.parametrize("p", [0.001, 0.05, 0.3, 0.5, 0.9])
def test_as_many_are_dropped_as_in_independent_trials(p):
    torch.manual_seed(3)
    counts = torch.tensor([int(is_dropped(TRIALS, p=p).sum()) for _ in range(30)], dtype=torch.float64)
    assert abs(rounded(p) / p - 1) < 0.005
    p = rounded(p)
    deviation = math.sqrt(TRIALS * p * (1 - p))
    assert abs(counts.mean() - TRIALS * p) < 4 * deviation / math.sqrt(30)
    assert 0.5 * deviation < counts.std() < 1.6 * deviation


@pytest.mark.parametrize("p", [0.05, 0.5])
def test_every_position_alike_and_neighbours_independent(p):
    torch.manual_seed(4)
    length, rounds = 40, 8_000
    dropped = is_dropped(rounds, length, p=p).float()
    error = 5 * math.sqrt(p * (1 - p) / rounds)
    assert (dropped.mean(0) - p).abs().max() < error
    both = (dropped[:, :-1] * dropped[:, 1:]).mean(0)
    assert (both - p * p).abs().max() < error


@pytest.mark.parametrize("p", [0.0, 2**-17, 1 - 2**-17])
def test_probabilities_beyond_16_bits_keep_the_mean_finite(p):
    torch.manual_seed(5)
    for count in (0, 1, 7):
        factors = dropout(torch.ones(count), p, True)
        assert factors.shape == (count,)
        assert factors.isfinite().all()
    assert set(dropout(torch.ones(TRIALS), p, True).unique().tolist()) <= {0.0, 1.0, 65536.0}


def test_gradients_see_the_same_elements():
    torch.manual_seed(7)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    # not one block of memory; 0.375 is a multiple of 1/256
    y = dropout(x.transpose(0, 2), 0.375, True)
    kept = y != 0
    torch.testing.assert_close(y, torch.where(kept, x.transpose(0, 2) / 0.625, 0))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, kept.transpose(0, 2).double() / 0.625)

    def with_fixed_draws(x):
        torch.manual_seed(8)
        return dropout(x, 0.4, True)

    assert torch.autograd.gradcheck(with_fixed_draws, (x,))
    assert torch.autograd.gradgradcheck(with_fixed_draws, (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [3.0, 1e4, 3e9])
def test_dropped_inputs_of_gelu_have_no_influence(dtype, value):
    torch.manual_seed(11)
    value = min(value, torch.finfo(dtype).max / 4)
    x = torch.full((64, 1), value, dtype=dtype, requires_grad=True)
    linear = nn.Linear(1, 1, bias=False).to(dtype)
    nn.init.constant_(linear.weight, 0.25)
    outputs = apply_after_dropped_gelu(linear, x, Dropout(0.5))
    (gradient,) = torch.autograd.grad(outputs.sum(), x)
    dropped = outputs == 0
    assert 16 < dropped.sum() < 48
    assert torch.equal(gradient == 0, dropped)
    torch.testing.assert_close(outputs[~dropped], (F.gelu(x) / 2)[~dropped])


@pytest.mark.parametrize(("p", "dtype"), [(0.3, torch.float32), (0.05, torch.float64), (0.25, torch.bfloat16)])
def test_a_linear_layer_after_dropout_of_gelu(p, dtype):
    linear = nn.Linear(6, 3).to(dtype)
    x = torch.randn(5, 4, 6).to(dtype).requires_grad_()
    outputs, gradients = [], []
    for compute in (
        lambda x: apply_after_dropped_gelu(linear, 3 * x, Dropout(p)),
        lambda x: linear(dropout(F.gelu(3 * x), p, True)),
    ):
        torch.manual_seed(10)
        outputs.append(compute(x))
        gradients.append(torch.autograd.grad(outputs[-1].float().square().sum(), (x, *linear.parameters())))
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-5
    for found, expected in zip((outputs[0], *gradients[0]), (outputs[1], *gradients[1]), strict=True):
        assert (found - expected).float().norm() <= tolerance * expected.float().norm()
    assert (gradients[0][0] == 0).any()
    plain = apply_after_dropped_gelu(linear, x.detach(), Dropout(p).eval())
    torch.testing.assert_close(plain, linear(F.gelu(x.detach())))
