"""Linear attention: a kernel feature map in place of the softmax, so that keys and values are summed once.

    out_i = φ(q_i) (Σ_j φ(k_j)ᵀ v_j) / (φ(q_i)·Σ_j φ(k_j) + eps)        (sums over j <= i when causal)

    elu     elu(x) + 1                                                     F = E
    relu    relu(x)                                                        F = E
    taylor  φ(q)·φ(k) = 1 + s + s²/2, s = q·k/√E: exp(s) to second order   F = 1 + E + E(E+1)/2
    favor   exp(w·x − |x|²/2)/√F, x scaled by E^-¼: exp(s) in expectation  F random directions w

Cost: n·E·F time for F features, n·(E + F) memory; E is the head size. Sums run in float32 or wider. With favor
features, eps is added to each exponential and not in the quotient, whose parts can all be far below eps.

Sources: Katharopoulos et al. 2020, "Transformers are RNNs", equations 5, 9 and, for the gradients, 13 to 15;
Choromanski et al. 2021, "Rethinking Attention with Performers", lemma 1 and section 2.4 (favor); Arora et al. 2024,
"Based", section 4.1 (taylor).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Attention, Memory, Queries, check_causal_lengths, check_choice, check_sizes
from forecast.attention.prefix_sums import from_chunks, sum_after, sum_before, to_chunks

FEATURE_MAPS = ("elu", "relu", "taylor", "favor")


class EluPlusOne(torch.autograd.Function):
    """elu(x) + 1. Its slope is min(φ, 1), so that backward needs φ only."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        phi = F.elu(x).add_(1)
        ctx.save_for_backward(phi)
        return phi

    @staticmethod
    def backward(ctx, *grads: Tensor) -> Tensor:
        return ctx.saved_tensors[0].clamp(max=1).mul_(grads[0])


def taylor_features(x: Tensor) -> Tensor:
    """Compute [1, x, x_i² / √2, x_i x_j (i < j)] of x · E^-¼."""
    width = x.shape[-1]
    x = x * width**-0.25
    i, j = torch.triu_indices(width, width, device=x.device)
    scale = x.new_ones(i.shape).masked_fill(i == j, math.sqrt(0.5))
    return torch.cat([torch.ones_like(x[..., :1]), x, x[..., i] * x[..., j] * scale], dim=-1)


def favor_features(q: Tensor, k: Tensor, directions: Tensor, causal: bool, eps: float) -> tuple[Tensor, Tensor]:
    """Compute (exp(w·x − |x|²/2) + eps) / √F of queries and keys.

    The largest exponent is subtracted where this cancels in the quotient: for each query always, for the keys only if
    all queries read all keys. The exponents of causal keys stay; they cannot exceed |w|²/2.
    """
    to_query, to_key = _exponent(q, directions), _exponent(k, directions)
    to_query = to_query - to_query.amax(-1, keepdim=True).detach()
    if not causal:
        to_key = to_key - to_key.amax((-2, -1), keepdim=True).detach()
    scale = directions.shape[0] ** -0.5
    return scale * (to_query.exp() + eps), scale * (to_key.exp() + eps)


def _exponent(x: Tensor, directions: Tensor) -> Tensor:
    x = x * x.shape[-1] ** -0.25
    return x @ directions.mT - x.square().sum(-1, keepdim=True) / 2


def orthogonal_directions(features: int, head_dim: int) -> Float[Tensor, "features head_dim"]:
    """Draw directions that are orthogonal within every block of `head_dim`, with the lengths of Gaussian vectors."""
    blocks = math.ceil(features / head_dim)
    directions = torch.linalg.qr(torch.randn(blocks, head_dim, head_dim)).Q.flatten(0, 1)[:features]
    return directions * torch.randn(features, head_dim).norm(dim=-1, keepdim=True)


def linear_attention(
    q: Queries,
    k: Memory,
    v: Memory,
    *,
    causal: bool = False,
    feature_map: str = "elu",
    eps: float = 1e-6,
    projection: Float[Tensor, "features head_dim"] | None = None,
) -> Queries:
    """Compute linear attention. Only the feature map favor takes a `projection` (see `orthogonal_directions`)."""
    check_choice("linear feature_map", feature_map, FEATURE_MAPS)
    if causal:
        check_causal_lengths(q, k)
    if (projection is not None) != (feature_map == "favor"):
        given = "without" if projection is None else "with"
        raise ValueError(f"feature map {feature_map!r} {given} a projection: favor needs one, the others take none")
    dtype = torch.promote_types(v.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        q, k, values = q.to(dtype), k.to(dtype), v.to(dtype)
        if projection is None:
            phi = {"elu": EluPlusOne.apply, "relu": F.relu, "taylor": taylor_features}[feature_map]
            q, k = phi(q), phi(k)
        else:
            q, k = favor_features(q, k, projection.to(dtype), causal, eps)
            eps = torch.finfo(dtype).tiny  # for the rows that pad a chunk
        return _mix(q, k, values, eps, causal).to(v.dtype)


def _mix(q: Tensor, k: Tensor, v: Tensor, eps: float, causal: bool) -> Tensor:
    """Mix with batched products of batch · heads matrices, or batch · heads · chunks when causal."""
    batch, heads, length, _ = q.shape
    if not causal:
        out = _KernelSums.apply(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), eps, None)
        return out.unflatten(0, (batch, heads))
    q, k, v = to_chunks(q), to_chunks(k), to_chunks(v)
    out = _KernelSums.apply(q.flatten(0, 2), k.flatten(0, 2), v.flatten(0, 2), eps, q.shape[2])
    return from_chunks(out.unflatten(0, q.shape[:3]), length)


class _KernelSums(torch.autograd.Function):
    """The formula with closed-form gradients.

    Forward sums φ(k)vᵀ over the keys that a query reads; backward sums φ(q)∇ᵀ over the queries that read a key.

    With `chunks` the sums are causal. Earlier chunks (in backward: later ones) enter through their summed states, and
    the chunk itself through masked products, which backward computes again.
    """

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, eps: float, chunks: int | None) -> Tensor:
        state, total = k.mT @ v, k.sum(1, keepdim=True)  # (rows, features, head_dim), (rows, 1, features)
        if chunks is not None:
            state, total = _over_chunks(sum_before, state, chunks), _over_chunks(sum_before, total, chunks)
        out, weight = q @ state, (q @ total.mT).add_(eps)
        if chunks is not None:
            own = (q @ k.mT).tril_()
            out.baddbmm_(own, v)
            weight.add_(own.sum(-1, keepdim=True))
        out.div_(weight)
        ctx.save_for_backward(q, k, v, state, total, weight, out)
        ctx.chunks = chunks
        return out

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # a compiled backward inherits the autocast of forward
        with torch.autocast(grads[0].device.type, enabled=False):
            q, k, v, state, total, weight, out = ctx.saved_tensors
            chunks = ctx.chunks
            g = grads[0] / weight  # gradient of the numerator
            g_weight = (g * out).sum(-1, keepdim=True).neg_()
            later, later_total = q.mT @ g, g_weight.mT @ q
            if chunks is not None:
                later, later_total = (
                    _over_chunks(sum_after, later, chunks),
                    _over_chunks(sum_after, later_total, chunks),
                )
            dq = (g @ state.mT).addcmul_(g_weight, total)
            dk = (v @ later.mT).add_(later_total)
            dv = k @ later
            if chunks is not None:
                own = (q @ k.mT).tril_()
                d_own = (g @ v.mT).add_(g_weight).tril_()
                dq.baddbmm_(d_own, k)
                dk.baddbmm_(d_own.mT, q)
                dv.baddbmm_(own.mT, g)
            return dq, dk, dv, None, None


def _over_chunks(reduce: Callable[[Tensor], Tensor], x: Tensor, chunks: int) -> Tensor:
    return reduce(x.reshape(-1, chunks, x.shape[1:].numel())).view_as(x)


class LinearAttention(Attention):
    """Kernel feature maps in place of the softmax.

    Args:
        feature_map: elu, relu, taylor or favor.
        num_features: random directions of favor, E ln E by default; they are drawn once and saved in the state dict.
        eps: added to the normaliser, or to each exponential of favor.

    Raises ValueError: see `Attention`; or an option is out of range.
    """

    roles = frozenset({"self", "causal", "cross"})
    independent_queries = True
    projection: Tensor | None

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        feature_map: str = "elu",
        num_features: int | None = None,
        eps: float = 1e-6,
    ):
        super().__init__(d_model, n_heads, role=role, dropout=dropout)
        check_choice("linear feature_map", feature_map, FEATURE_MAPS)
        if num_features is not None:
            check_sizes(num_features=num_features)
            if feature_map != "favor":
                raise ValueError(f"linear num_features needs feature_map=favor, not {feature_map!r}")
        if not eps > 0:
            raise ValueError(f"linear eps must be positive, not {eps}")
        self.feature_map = feature_map
        self.eps = eps
        directions = None
        if feature_map == "favor":
            features = num_features or math.ceil(self.head_dim * math.log(self.head_dim + 1))
            directions = orthogonal_directions(features, self.head_dim)
        self.register_buffer("projection", directions)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return linear_attention(
            q,
            k,
            v,
            causal=self.role == "causal",
            feature_map=self.feature_map,
            eps=self.eps,
            projection=self.projection,
        )
