"""Gated delta-rule attention: a linear memory that fades, and in which a value replaces what its key read before.

    S_t = α_t S_{t−1} + k_t u_tᵀ        u_t = β_t (v_t − α_t S_{t−1}ᵀ k_t)        o_t = S_tᵀ q_t        S_0 = 0
    α_i = σ(w_α·k_i + b_α)      what is kept of older tokens (gate)
    β_i = σ(w_β·k_i + b_β)      how much of the value that the key read before is replaced by the new one (delta)

Queries and keys have unit length. Without β, u_t = v_t. Inside a chunk of positions, the u_t solve a triangular
system, whose inverse is formed once (the UT transform). One state for each chunk carries the earlier chunks. Cost:
n·E² time, n·E memory. All sums run in float32 or wider.

    gate and delta        Gated DeltaNet                gate alone      decay as in RetNet, dependent on the key
    delta alone           DeltaNet                      neither         linear attention without a normaliser

The paper computes α and β from the input of the layer; here each head computes them from its own key, which is a
projection of that input, before its length is divided out. The order of the keys matters, in role cross too: they
should run from the oldest to the newest, so that newer values replace older ones.

Three switches add the other parts of the published layer. Without them, which is the default, the layer differs from
the other attention types in its mixing alone.

    short_conv     x_i ← silu(Σ_j w_j ∘ x_{i−3+j}), j = 0..3, for q, k and v; α and β come from the k before it
    output_norm    o ← g ∘ o / √(mean(o²) + ε) in each head
    output_gate    o ← o ∘ silu(W q), q of all heads, in place of W times the input of the layer

The convolution is causal in role self too: both directions of the memory read the same k and v. In role cross, queries
are not convolved, because a query there must not depend on the others.

Sources: Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule", arXiv 2412.06464, equation 10 and
sections 3.3 and 3.4; Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length",
section 3.2; `GatedDeltaNet` of flash-linear-attention.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import (
    ROLES,
    Attention,
    Curves,
    Memory,
    Queries,
    Tokens,
    check_causal_lengths,
    check_choice,
)
from forecast.attention.prefix_sums import cut

CHUNK_LIMITS = (16, 32)
"""Smallest and largest chunk for long sequences on a CPU; half the head size between them was fastest."""
GPU_CHUNK_LIMITS = (32, 128)
"""The same on a GPU, where a step between chunks takes as long as its kernels need to start: about √n was fastest, but
memory grows with the chunk."""

SLOWEST, FASTEST = 8.0, 4.0
"""b_α of the first and the last head at the start: they keep their memory for about 3,000 and 55 tokens.

Chosen by validation errors on `recall` (3 seeds), where 400 and 8 tokens were worse. Those of RetNet begin at 32
tokens.
"""

KERNEL, NORM_EPS = 4, 1e-5  # of the convolution and of the norm of the output, as in flash-linear-attention


def delta_rule(
    q: Queries,
    k: Memory,
    v: Memory,
    *,
    log_decay: Float[Tensor, "batch heads memory_len"] | None = None,
    strength: Float[Tensor, "batch heads memory_len"] | None = None,
    role: str = "causal",
) -> Queries:
    """Compute the outputs o.

    Args:
        k: keys, at most of unit length: longer ones may let the memory grow without bound.
        log_decay: log α, at most 0. None: nothing fades.
        strength: β, from 0 to 1. None: nothing is replaced.
        role: causal: query i reads S_i. self: query i also reads the memory of the keys after i, which is filled from
            the last key backwards. cross: every query reads the memory of all keys.

    Raises ValueError: the role is unknown, or causal or self with queries and keys of different lengths.
    """
    check_choice("delta rule role", role, ROLES)
    if role != "cross":
        check_causal_lengths(q, k)
    heads, length = q.shape[:2], q.shape[2]
    dtype = torch.promote_types(v.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        size, bidirectional = chunk_size(k.shape[2], k.shape[3], gpu=k.is_cuda), role == "self"
        split = partial(_to_chunks, size=size, bidirectional=bidirectional)
        queries, keys, values = q.to(dtype), split(k.to(dtype)), split(v.to(dtype))
        beta = None if strength is None else split(strength.to(dtype))
        rate = k.new_zeros(k.shape[:3]) if log_decay is None else log_decay
        total = split(rate.to(dtype)).cumsum(-1)  # log decay since the start of the chunk
        decay = (total[..., None] - total[..., None, :]).tril().exp().tril()
        start_decay = total.exp()
        writes, states, last = _Writes.apply(keys, values, beta, decay, start_decay)
        if role == "cross":
            return (queries @ last.unflatten(0, heads)).to(v.dtype)
        out = _read(split(queries), keys, writes, states, decay, start_decay, bidirectional)
        return out.transpose(0, 1).flatten(1, 2)[:, :length].unflatten(0, heads).to(v.dtype)


def chunk_size(length: int, head_dim: int, *, gpu: bool) -> int:
    """Choose the positions of a chunk: a power of 2."""
    smallest, largest = GPU_CHUNK_LIMITS if gpu else CHUNK_LIMITS
    wished = math.isqrt(length) if gpu else _power_of_2(head_dim) // 2
    return min(_power_of_2(min(max(wished, smallest), largest)), _power_of_2(length))


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _to_chunks(x: Tensor, size: int, bidirectional: bool) -> Tensor:
    """Arrange (batch, heads, length, ...) as (chunks, rows, size, ...), padded with zeros, which change no state.

    The rows are batch · heads; with `bidirectional`, the same rows with reversed positions follow.
    """
    x = cut(x.flatten(0, 1), size, 1).transpose(0, 1)
    return torch.cat([x, x.flip(0, 2)], dim=1) if bidirectional else x.contiguous()


def _read(
    q: Float[Tensor, "chunks rows size head_dim"],
    k: Float[Tensor, "chunks rows size head_dim"],
    writes: Float[Tensor, "chunks rows size head_dim"],
    states: Float[Tensor, "chunks rows head_dim head_dim"],
    decay: Float[Tensor, "chunks rows size size"],
    start_decay: Float[Tensor, "chunks rows size"],
    bidirectional: bool,
) -> Float[Tensor, "chunks some_rows size head_dim"]:
    """Read the memory with the queries; with `bidirectional`, add the second half of the rows to the first."""
    chunks, rows, size = start_decay.shape
    weights = _product(q, k.mT) * decay
    if bidirectional:  # the reversed rows do not read their own key, which the other rows read
        own = torch.eye(size, dtype=torch.bool, device=q.device)
        weights = torch.cat([weights[:, : rows // 2], weights[:, rows // 2 :].masked_fill(own, 0)], dim=1)
    out = _product(weights, writes)
    if chunks > 1:
        out = out + _product(q * start_decay[..., None], states)
    return out[:, : rows // 2] + out[:, rows // 2 :].flip(0, 2) if bidirectional else out


class _Writes(torch.autograd.Function):
    """The u of every position, the state before each chunk and the last state, with closed-form gradients.

    k and v are (chunks, rows, size, head_dim), beta is (chunks, rows, size). decay (chunks, rows, size, size) is the
    product of α from after a key to a query of the same chunk; start_decay (chunks, rows, size) is that from the start
    of the chunk to a query. With S the state before the chunk, A = tril(β ∘ KKᵀ ∘ decay, −1) and T = (I + A)⁻¹:

        U = T (β ∘ V − (β ∘ start_decay ∘ K) S)        next state = start_decay_last · S + (decay_last ∘ K)ᵀ U

    Backward needs ∇A = −Tᵀ∇U · Uᵀ only, and no gradient of the inverse.
    """

    @staticmethod
    def forward(
        ctx, k: Tensor, v: Tensor, beta: Tensor | None, decay: Tensor, start_decay: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        decayed_keys, chunk_decay = k * decay[..., -1, :, None], start_decay[..., -1, None, None]
        inverse, erased, write = None, None, v
        if beta is not None:
            inverse = unit_lower_inverse(_product(k, k.mT) * decay * beta[..., None])
            erased, write = k * (beta * start_decay)[..., None], v * beta[..., None]
        each, all_states = [], [v.new_zeros(k.shape[1], k.shape[3], v.shape[3])]
        for c in range(len(k)):
            u, state = write[c], all_states[-1]
            if inverse is not None and erased is not None:
                u = inverse[c] @ torch.baddbmm(u, erased[c], state, alpha=-1)
            each.append(u)
            all_states.append(torch.baddbmm(chunk_decay[c] * state, decayed_keys[c].mT, u))
        writes, states = torch.stack(each), torch.stack(all_states)
        ctx.save_for_backward(k, v, beta, decay, start_decay, inverse, writes, states)
        return writes, states[:-1], states[-1]

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # a compiled backward inherits the autocast of forward
        with torch.autocast(grads[0].device.type, enabled=False):
            k, v, beta, decay, start_decay, inverse, writes, states = ctx.saved_tensors
            decayed_keys, chunk_decay = k * decay[..., -1, :, None], start_decay[..., -1, None, None]
            g, later = grads[0].clone(), torch.cat([grads[1], grads[2][None]])
            for c in reversed(range(len(k))):  # g becomes the gradient of β ∘ V − (β ∘ start_decay ∘ K) S
                g[c].baddbmm_(decayed_keys[c], later[c + 1])
                later[c].addcmul_(chunk_decay[c], later[c + 1])
                if beta is not None:
                    g[c] = inverse[c].mT @ g[c]
                    later[c].baddbmm_((k[c] * (beta[c] * start_decay[c])[..., None]).mT, g[c], alpha=-1)
            d_k = _product(writes, later[1:].mT)
            d_decay, d_since = torch.zeros_like(decay), torch.zeros_like(start_decay)
            d_decay[..., -1, :] = (d_k * k).sum(-1)
            d_since[..., -1] = (states[:-1] * later[1:]).sum((-2, -1))
            d_k *= decay[..., -1, :, None]
            if beta is None:
                return d_k, g, None, d_decay, d_since
            strict = _product(g, writes.mT).neg_().tril_(-1)
            to_pairs = strict * _product(k, k.mT)
            d_decay.addcmul_(to_pairs, beta[..., None])
            strict.mul_(decay).mul_(beta[..., None])
            d_k += _product(strict + strict.mT, k)
            to_key = _product(g, states[:-1].mT)
            overlap = (to_key * k).sum(-1)
            d_k.addcmul_(to_key, (beta * start_decay)[..., None], value=-1)
            d_beta = (to_pairs * decay).sum(-1) + (g * v).sum(-1) - overlap * start_decay
            return d_k, g * beta[..., None], d_beta, d_decay, d_since - overlap * beta


def unit_lower_inverse(x: Float[Tensor, "chunks rows size size"]) -> Float[Tensor, "chunks rows size size"]:
    """Invert I + the strict lower triangle of x; the size is a power of 2.

    Diagonal blocks are joined in pairs: [[A, 0], [X, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹XA⁻¹, D⁻¹]]. This is as accurate as
    substitution, and it has an ONNX form.
    """
    inverse = torch.ones_like(x[..., :1, None])  # (chunks, rows, blocks, half, half)
    while inverse.shape[2] > 1:
        half = inverse.shape[-1]
        upper, lower = inverse[:, :, 0::2], inverse[:, :, 1::2]
        corner = -(lower @ _diagonal_blocks(x, 2 * half)[..., half:, :half] @ upper)
        inverse = torch.cat([F.pad(upper, (0, half)), torch.cat([corner, lower], dim=-1)], dim=-2)
    return inverse.squeeze(2)


def _diagonal_blocks(x: Tensor, size: int) -> Tensor:
    """View the diagonal blocks (chunks, rows, blocks, size, size) of matrices."""
    grid = x.unflatten(-1, (-1, size)).unflatten(-3, (-1, size))  # (chunks, rows, blocks, size, blocks, size)
    return grid.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def _product(x: Tensor, y: Tensor) -> Tensor:
    """Multiply matrices (chunks, rows, ., .) as one batch."""
    return torch.bmm(x.flatten(0, 1), y.flatten(0, 1)).unflatten(0, x.shape[:2])


class KeyLogit(nn.Module):
    """w·k + b of each head, in float32 or wider."""

    def __init__(self, weight: Float[Tensor, "heads head_dim"], bias: Float[Tensor, " heads"]) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, k: Tokens) -> Float[Tensor, "batch heads length"]:
        dtype = torch.promote_types(k.dtype, torch.float32)
        with torch.autocast(k.device.type, enabled=False):
            weight, bias = self.weight.to(dtype), self.bias.to(dtype)
            return (k.to(dtype) @ weight[..., None]).squeeze(-1) + bias[:, None]


class ShortConvolution(nn.Module):
    """A causal convolution of each channel, followed by SiLU; zeros lie before the first position."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        bound = KERNEL**-0.5  # PyTorch's initialisation of a depthwise convolution
        self.weight = nn.Parameter(torch.empty(KERNEL, heads, 1, head_dim).uniform_(-bound, bound))

    def forward(self, x: Tokens) -> Tokens:
        """Return the convolved x in float32 or wider."""
        dtype, length = torch.promote_types(x.dtype, torch.float32), x.shape[2]
        padded = F.pad(x.to(dtype), (0, 0, KERNEL - 1, 0))
        first, *others = (padded[:, :, j : j + length] * tap for j, tap in enumerate(self.weight.to(dtype)))
        return F.silu(sum(others, first))


class GatedDeltaAttention(Attention):
    """A memory of fixed size that fades and is corrected, read from both directions in role self.

    Args:
        gate: older tokens fade; otherwise α = 1.
        delta: a value replaces what its key read before; otherwise it is added to it.
        short_conv: convolve queries, keys and values over four tokens.
        output_gate: multiply the output with a gate of the query.
        output_norm: divide the output of each head by its root mean square.

    Raises ValueError: see `Attention`.
    """

    roles = frozenset({"self", "causal", "cross"})
    independent_queries = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        gate: bool = True,
        delta: bool = True,
        short_conv: bool = False,
        output_gate: bool = False,
        output_norm: bool = False,
    ):
        super().__init__(d_model, n_heads, role=role, dropout=dropout)
        size = (n_heads, self.head_dim)
        self.decay = KeyLogit(torch.zeros(size), torch.linspace(SLOWEST, FASTEST, n_heads)) if gate else None
        self.strength = KeyLogit(torch.randn(size) * self.head_dim**-0.5, torch.zeros(n_heads)) if delta else None
        convolved = ("k", "v") if role == "cross" else ("q", "k", "v")
        self.convolutions = nn.ModuleDict({x: ShortConvolution(*size) for x in convolved if short_conv})
        self.output_norm = nn.Parameter(torch.ones(self.head_dim)) if output_norm else None
        self.output_gate = nn.Linear(d_model, d_model, bias=False) if output_gate else None

    def convolve(self, name: str, x: Tensor) -> Tensor:
        """Convolve q, k or v, where the layer does so."""
        return self.convolutions[name](x) if name in self.convolutions else x

    def normalise(self, mixed: Tensor) -> Tensor:
        """Divide the output of each head by its root mean square, where the layer does so."""
        if self.output_norm is None:
            return mixed
        weight = self.output_norm.to(mixed.dtype)
        # The published layer divides queries by √E, which only ε notices.
        return F.rms_norm(mixed * self.head_dim**-0.5, weight.shape, weight, NORM_EPS)

    def memory_gates(self, k: Tokens) -> tuple[Tensor | None, Tensor | None]:
        """Compute log α and β of every key (batch, heads, length); None: the gate or the delta rule is switched off."""
        log_decay = None if self.decay is None else F.logsigmoid(self.decay(k))
        return log_decay, None if self.strength is None else torch.sigmoid(self.strength(k))

    def describe(self, q: Tensor, k: Tensor) -> list[Curves]:
        log_decay, strength = self.memory_gates(k)
        gates = {
            "α, kept of older tokens": None if log_decay is None else log_decay.exp(),
            "β, strength of the replacement": strength,
        }
        caption = (
            "The gates of each key. A token with a small α erases the memory of older tokens; one with a large β "
            "replaces the value that a similar key read before."
        )
        values = {name: gate for name, gate in gates.items() if gate is not None}
        return [Curves("gates", caption, values, "gate")] if values else []

    def mix_by_content(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        log_decay, strength = self.memory_gates(k)
        q, k = (F.normalize(self.convolve(name, x), dim=-1) for name, x in (("q", q), ("k", k)))
        return delta_rule(q, k, v, log_decay=log_decay, strength=strength, role=self.role)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.normalise(self.mix_by_content(q, k, self.convolve("v", v)))

    def project_out(self, mixed: Tensor, query: Tensor) -> Tensor:
        if self.output_gate is not None:
            gate = self.output_gate(query.transpose(1, 2).flatten(2))
            mixed = mixed * F.silu(gate.to(mixed.dtype))
        return super().project_out(mixed.to(query.dtype), query)
