"""Gated delta rule attention against the reference's recurrence, and against its definition step by step."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import forecast.attention.gated_delta as module
from forecast.attention import GatedDeltaAttention
from forecast.attention.gated_delta import chunk_size, delta_rule
from tests.support.attention_types import BATCH, HEADS, QUERY_LEN, heads
from tests.support.golden_answers import golden_tensors

ROLES = ["self", "causal", "cross"]
SWITCHES = [(True, True), (True, False), (False, True), (False, False)]
LENGTH = 75  # several chunks, and no multiple of one


def memories(role: str, length: int = LENGTH) -> tuple[Tensor, ...]:
    """Queries, keys of unit length, values, log α and β."""
    q, k, v = heads(QUERY_LEN if role == "cross" else length, length)
    strength, logit = torch.rand(BATCH, HEADS, length).double(), torch.randn(BATCH, HEADS, length).double()
    return q, F.normalize(k, dim=-1), v, F.logsigmoid(1 + 2 * logit), strength


def step_by_step(q, k, v, log_decay, strength) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs of the first queries of role causal, those without a query's own key, and the last state."""
    state = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1], dtype=k.dtype)
    after, before = [], []
    for t in range(k.shape[2]):
        key, value = k[:, :, t], v[:, :, t]
        if log_decay is not None:
            state = log_decay[:, :, t, None, None].exp() * state
        before.append(torch.einsum("bhe,bhef->bhf", q[:, :, t], state))
        if strength is not None:
            value = strength[:, :, t, None] * (value - torch.einsum("bhe,bhef->bhf", key, state))
        state = state + key[..., None] * value[..., None, :]
        after.append(torch.einsum("bhe,bhef->bhf", q[:, :, t], state))
    return torch.stack(after, 2), torch.stack(before, 2), state


def expected(role: str, q, k, v, log_decay, strength) -> Tensor:
    causal, _, last = step_by_step(q, k, v, log_decay, strength)
    if role == "cross":
        return q @ last
    if role == "causal":
        return causal
    reversed_inputs = [x if x is None else x.flip(2) for x in (q, k, v, log_decay, strength)]
    return causal + step_by_step(*reversed_inputs)[1].flip(2)


def test_reference():
    data = golden_tensors("gated_delta_causal")
    q, inputs = data["q"], (data["k"], data["v"])
    gates = {"log_decay": data["log_decay"], "strength": data["strength"]}
    out = delta_rule(q, *inputs, **gates)
    torch.testing.assert_close(out, data["output"], rtol=0, atol=1e-10)
    out = delta_rule(q, *inputs, **gates, role="cross")
    torch.testing.assert_close(out, q @ data["state"], rtol=0, atol=1e-10)


def published(data: dict[str, Tensor]) -> GatedDeltaAttention:
    heads, head_dim = data["decay_weight"].shape
    parts = {"short_conv": True, "output_gate": True, "output_norm": True}
    layer = GatedDeltaAttention(heads * head_dim, heads, role="causal", **parts).double()
    taps = data["conv"].mT.unflatten(-1, (heads, 1, head_dim))  # (q k v, kernel, heads, 1, head_dim)
    found = {
        "in_projection.weight": torch.cat([data["query"], data["key"], data["value"]]),
        "in_projection.bias": torch.zeros(3 * heads * head_dim),
        "decay.weight": data["decay_weight"],
        "decay.bias": data["decay_bias"],
        "strength.weight": data["strength_weight"],
        "strength.bias": torch.zeros(heads),
        **{f"convolutions.{name}.weight": tap for name, tap in zip("qkv", taps, strict=True)},
        "output_norm": data["norm"],
        "output_gate.weight": data["gate"] @ data["query"].inverse(),  # a gate of the input, as one of the query
        "out_projection.weight": data["out"],
        "out_projection.bias": torch.zeros(heads * head_dim),
    }
    layer.load_state_dict(found)
    return layer


def test_the_published_layer() -> None:
    """`Qwen3NextGatedDeltaNet` of transformers 5.24, in float64, without the ε of the length of queries and keys."""
    data = golden_tensors("gated_delta_net")
    layer = published(data)
    torch.testing.assert_close(layer(data["x"], data["x"]), data["output"], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("gate", "delta"), SWITCHES)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("length", [1, 16, LENGTH])
def test_outputs_and_gradients_are_those_of_the_recurrence(role: str, gate: bool, delta: bool, length: int) -> None:
    answers = []
    for reference in (False, True):
        q, k, v, log_decay, strength = leaves = [x.requires_grad_() for x in memories(role, length)]
        gates = (log_decay if gate else None, strength if delta else None)
        if reference:
            out = expected(role, q, k, v, *gates)
        else:
            out = delta_rule(q, k, v, log_decay=gates[0], strength=gates[1], role=role)
        out.backward(torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out))
        answers.append([out, *(x.grad for x in leaves)])
    torch.testing.assert_close(*answers, rtol=0, atol=1e-10)  # None: of a gate that is switched off


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_memory_accumulates_in_float32(dtype: torch.dtype) -> None:
    """4,096 equal keys: a sum in bfloat16 stands still at 256, one in float16 at 2,048."""
    k = torch.full((1, 1, 4096, 4), 0.5, dtype=dtype)
    with torch.autocast("cpu", dtype=dtype):
        out = delta_rule(k / 4, k, torch.ones_like(k))
    assert out.dtype == dtype
    assert out[0, 0, -1, 0] == 1024


def test_float32_stays_accurate_over_equal_keys() -> None:
    """The worst case of the triangular system: all keys of a chunk are equal, and all β are 1."""
    k = F.normalize(torch.ones(1, 1, 1000, 8), dim=-1)
    v = torch.randn(1, 1, 1000, 8)
    out = delta_rule(k, k, v, strength=torch.ones(1, 1, 1000))
    torch.testing.assert_close(out, v, rtol=0, atol=1e-5)


def test_the_gates_of_a_new_layer() -> None:
    """For a key of zeros, the heads keep their memory for 2,982 to 56 tokens, and β is one half."""
    log_decay, strength = GatedDeltaAttention(20, 5, role="self").memory_gates(torch.zeros(1, 5, 1, 4))
    assert log_decay is not None
    assert strength is not None
    tokens = 1 / (1 - log_decay.double().exp())
    torch.testing.assert_close(tokens[0, :, 0].tolist(), [2982.0, 1097.6, 404.4, 149.4, 55.6], rtol=1e-3, atol=0)
    assert strength.tolist() == [[[0.5]] * 5]


def test_chunks_of_a_gpu_grow_with_the_length_and_change_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [chunk_size(n, 64, gpu=True) for n in (20, 1024, 4096, 16_384, 131_072)] == [32, 32, 64, 128, 128]
    q, k, v, log_decay, strength = (x.float() for x in memories("self", 300))
    outs = []
    for size in (16, 256):
        monkeypatch.setattr(module, "chunk_size", lambda length, head_dim, *, gpu, size=size: size)
        outs.append(delta_rule(q, k, v, log_decay=log_decay, strength=strength, role="self"))
    torch.testing.assert_close(*outs, rtol=0, atol=1e-4 * outs[0].abs().max().item())
