"""Nyström attention: softmax attention through m landmarks.

    out = softmax(Q K̃ᵀ/√E) · pinv(softmax(Q̃ K̃ᵀ/√E)) · softmax(Q̃ Kᵀ/√E) V   [+ depthwise convolution of V]

Q̃ and K̃ are the landmarks: the means of m segments of Q and of K. The first and the last factor are themselves
attention calls, with the landmarks as keys and as queries. Cost: n·m·E time, n·E memory. With min(L_Q, L_K) <= m the
result is exact softmax attention.

The pseudo-inverse is a fixed number of third-order iterations without a test of convergence; the number is part of
the definition. The convolution has one kernel for each head, out[h, i] = Σ_j weight[h, j] · v[h, i + j − kernel //
2], and is computed as matrix products in n·E·(64 + kernel) time: a grouped convolution of PyTorch took ten times as
long on CPU.

Source: Xiong et al. 2021, "Nyströmformer", equations 13 and 14; iteration of Razavi et al. 2014. The initial scale is
computed for each matrix. The published code takes a maximum over the batch, so that one sample changes the output of
another.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import Attention, Curves, Memory, Queries, Tokens, check_sizes
from forecast.attention.full import full_attention, short_softmax_attention
from forecast.attention.prefix_sums import CHUNK, cut


def depthwise_convolution(v: Tokens, weight: Float[Tensor, "heads 1 kernel 1"]) -> Tokens:
    """Convolve every head along the length with its own kernel of odd size; zeros lie beyond the ends."""
    return _Convolution.apply(v, weight[:, 0, :, 0].to(v.dtype))


class _Convolution(torch.autograd.Function):
    """One matrix product for each head: a banded matrix times all chunks of the length.

    Every row of the band holds the kernel; its first and last columns reach into the neighbouring chunks.
    """

    @staticmethod
    def forward(ctx, v: Tensor, weight: Tensor) -> Tensor:
        x = _side_by_side(v, weight.shape[1] // 2)
        ctx.save_for_backward(x, weight)
        return _convolve(x, weight, v.shape[2])

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        half, kernel = weight.shape[1] // 2, weight.shape[1]
        g = _side_by_side(grads[0], half)
        heads, size, _, chunks, _ = x.shape
        band = x.new_zeros(heads, size, size + 2 * half)
        band[:, :, half : half + size] = _product(g, x)
        if chunks > 1 and half:
            band[:, :half, :half] = _product(g[:, :half, :, 1:], x[:, -half:, :, :-1])
            band[:, -half:, -half:] = _product(g[:, -half:, :, :-1], x[:, :half, :, 1:])
        diagonal = torch.arange(size, device=x.device)[:, None] + torch.arange(kernel, device=x.device)
        to_weight = band.gather(2, diagonal.expand(heads, -1, -1)).sum(1)
        return _convolve(g, weight.flip(1), grads[0].shape[2]), to_weight


def _convolve(x: Tensor, weight: Tensor, length: int) -> Tensor:
    """Multiply chunks from `_side_by_side` by the band; return (batch, heads, length, width)."""
    half, kernel = weight.shape[1] // 2, weight.shape[1]
    _, size, _, chunks, _ = x.shape
    # band[o, i] = weight[i − o] inside the kernel; else the zero that is appended to the kernel
    offset = torch.arange(size + 2 * half, device=x.device) - torch.arange(size, device=x.device)[:, None]
    band = F.pad(weight, (0, 1))[:, offset.where((offset >= 0) & (offset < kernel), kernel)]
    out = (band[:, :, half : half + size] @ x.flatten(2)).view_as(x)
    if chunks > 1 and half:
        before, after = x[:, -half:], x[:, :half]
        out[:, :half, :, 1:] += (band[:, :half, :half] @ before.flatten(2)).view_as(before)[:, :, :, :-1]
        out[:, -half:, :, :-1] += (band[:, -half:, -half:] @ after.flatten(2)).view_as(after)[:, :, :, 1:]
    return out.permute(2, 0, 3, 1, 4).flatten(2, 3)[:, :, :length]


def _side_by_side(x: Tensor, half: int) -> Tensor:
    """Arrange as (heads, size, batch, chunks, width); a chunk is at least as long as half the kernel."""
    size = min(max(CHUNK, half), x.shape[2])
    return cut(x, size, 2).permute(1, 3, 0, 2, 4).contiguous()


def _product(g: Tensor, x: Tensor) -> Tensor:
    """Multiply two arrangements from `_side_by_side`, summed over batch, chunks and width."""
    return g.flatten(2) @ x.flatten(2).mT


def nystrom_attention(
    q: Queries,
    k: Memory,
    v: Memory,
    *,
    num_landmarks: int = 32,
    pinv_iterations: int = 6,
    conv_weight: Float[Tensor, "heads 1 kernel 1"] | None = None,
) -> Queries:
    """Compute Nyström attention, plus the convolution of V where `conv_weight` is given.

    `conv_weight` requires query and memory of equal length.
    """
    if min(q.shape[2], k.shape[2]) <= num_landmarks:
        mixed = full_attention(q, k, v)
    else:
        (q, q_landmarks), (k, k_landmarks) = (_WithMeans.apply(x, num_landmarks) for x in (q, k))
        inverse = iterative_pinv(_softmax_kernel(q_landmarks, k_landmarks), pinv_iterations)
        gathered = short_softmax_attention(q_landmarks, k, v)
        with torch.autocast(q.device.type, enabled=False):
            gathered = inverse @ gathered.to(inverse.dtype)
        mixed = short_softmax_attention(q, k_landmarks, gathered.to(v.dtype))
    return mixed if conv_weight is None else mixed + depthwise_convolution(v, conv_weight)


def segment_means(x: Tokens, segments: int) -> Float[Tensor, "batch heads segments head_dim"]:
    """Average consecutive segments; the first `length % segments` of them are one step longer."""
    longer, others = _segments(x, segments)
    return torch.cat([longer.mean(3), others.mean(3)], dim=2) if longer.shape[2] else others.mean(3)


def _segments(x: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Split into the longer segments and the others, each (batch, heads, segments, size, head_dim)."""
    size, longer = divmod(x.shape[2], segments)
    head, tail = x.split([longer * (size + 1), (segments - longer) * size], dim=2)
    return head.unflatten(2, (longer, size + 1)), tail.unflatten(2, (segments - longer, size))


class _WithMeans(torch.autograd.Function):
    """Return x and its segment means; backward adds both gradients in one pass over the length."""

    @staticmethod
    def forward(ctx, x: Tensor, segments: int) -> tuple[Tensor, Tensor]:
        return x.view_as(x), segment_means(x, segments)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None]:
        to_x, to_means = grads
        longer, others = _segments(to_x, to_means.shape[2])
        marks = to_means.split([longer.shape[2], others.shape[2]], dim=2)
        parts = [
            (rows + means[:, :, :, None] / rows.shape[3]).flatten(2, 3)
            for rows, means in zip((longer, others), marks, strict=True)
        ]
        return torch.cat(parts, dim=2) if longer.shape[2] else parts[1], None


def _softmax_kernel(q: Tensor, k: Tensor) -> Tensor:
    """Compute softmax(Q̃ K̃ᵀ/√E) in float32 or wider."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        return (q.to(dtype) @ k.to(dtype).mT * q.shape[-1] ** -0.5).softmax(-1)


def iterative_pinv(
    matrix: Float[Tensor, "batch heads landmarks landmarks"], iterations: int
) -> Float[Tensor, "batch heads landmarks landmarks"]:
    """Iterate Z ← ¼ Z (13 − AZ (15 − AZ (7 − AZ))) from Z = Aᵀ / (‖A‖₁ ‖A‖∞) for a non-negative A."""
    scale = matrix.sum(-2).amax(-1) * matrix.sum(-1).amax(-1)
    inverse = (matrix.mT / scale[..., None, None]).flatten(0, 1)
    rows = matrix.flatten(0, 1)
    with torch.autocast(matrix.device.type, enabled=False):
        for _ in range(iterations):  # expanded, so that each sum is fused with a product
            product = rows @ inverse
            inner = torch.baddbmm(product, product, product, beta=7, alpha=-1)
            inner = torch.baddbmm(product, product, inner, beta=15, alpha=-1)
            inverse = torch.baddbmm(inverse, inverse, inner, beta=3.25, alpha=-0.25)
    return inverse.view_as(matrix)


class NystromAttention(Attention):
    """Softmax attention through landmarks, plus a depthwise convolution of the values in role self.

    Args:
        num_landmarks: number of segments over which queries and keys are averaged.
        pinv_iterations: iterations of the pseudo-inverse.
        conv_kernel: odd size of the convolution's kernel; None: no convolution; "auto": 33 in role self, none in role
            cross, where query and memory are different sequences.

    Raises:
        ValueError: see `Attention`; or an option is out of range.
    """

    roles = frozenset({"self", "cross"})

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        num_landmarks: int = 32,
        pinv_iterations: int = 6,
        conv_kernel: int | str | None = "auto",
    ):
        super().__init__(d_model, n_heads, role=role, dropout=dropout)
        check_sizes(num_landmarks=num_landmarks, pinv_iterations=pinv_iterations)
        if conv_kernel == "auto":
            conv_kernel = 33 if role == "self" else None
        if conv_kernel is not None and role == "cross":
            raise ValueError("nystrom conv_kernel must be null in role 'cross': a convolution needs one length")
        if conv_kernel is not None and (not isinstance(conv_kernel, int) or conv_kernel < 1 or conv_kernel % 2 == 0):
            raise ValueError(f"nystrom conv_kernel must be auto, null or an odd number, not {conv_kernel!r}")
        self.num_landmarks, self.pinv_iterations = num_landmarks, pinv_iterations
        self.conv_weight = None
        if conv_kernel is not None:
            bound = conv_kernel**-0.5  # PyTorch's initialisation of a convolution
            self.conv_weight = nn.Parameter(torch.empty(n_heads, 1, conv_kernel, 1).uniform_(-bound, bound))

    def why_equal_to_softmax(self, query_len: int, memory_len: int) -> str | None:
        if min(query_len, memory_len) > self.num_landmarks:
            return None
        convolution = "" if self.conv_weight is None else "; its convolution is added"
        return f"needs no landmarks for {min(query_len, memory_len)} tokens{convolution}"

    def describe(self, q: Tensor, k: Tensor) -> list[Curves]:
        landmarks, memory_len = self.num_landmarks, k.shape[2]
        if self.why_equal_to_softmax(q.shape[2], memory_len):
            return []
        size, longer = divmod(memory_len, landmarks)
        sizes = torch.full((landmarks,), size, device=k.device)
        sizes[:longer] += 1
        weights = _softmax_kernel(q, segment_means(k, landmarks)).mean(2) / sizes  # (batch, heads, landmarks)
        caption = (
            f"The mean attention of all queries to each of the {landmarks} landmarks, drawn over the segment whose "
            "mean the landmark is. A peak is a period that many queries attend to."
        )
        return [Curves("landmarks", caption, {"mean attention": weights.repeat_interleave(sizes, 2)})]

    def mix_by_content(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return nystrom_attention(q, k, v, num_landmarks=self.num_landmarks, pinv_iterations=self.pinv_iterations)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return nystrom_attention(
            q,
            k,
            v,
            num_landmarks=self.num_landmarks,
            pinv_iterations=self.pinv_iterations,
            conv_weight=self.conv_weight,
        )
