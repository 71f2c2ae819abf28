"""Nyström attention: softmax attention through m landmarks.

    out = softmax(Q K̃ᵀ/√E) · pinv(softmax(Q̃ K̃ᵀ/√E)) · softmax(Q̃ Kᵀ/√E) V   [+ depthwise convolution of V]

Q̃ and K̃ are the means of m segments of Q and of K. The first and the last factor are attention calls
themselves (the landmarks as keys, the landmarks as queries). Cost n·m·E in time, nE in memory.

The pseudo-inverse is a fixed number of third-order iterations, not run to convergence: that is part of the
definition. min(L_Q, L_K) <= m is exact softmax attention.

Source: Xiong et al. 2021, "Nyströmformer", equations 13 and 14; iteration of Razavi et al. 2014. Its starting
scale is taken per matrix; the published code's maximum over the batch lets one sample change another's
answer.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import Attention, Role
from forecast.attention.prefix import CHUNK


def nystrom_attention(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    *,
    num_landmarks: int = 32,
    pinv_iterations: int = 6,
    conv_weight: Float[Tensor, "heads 1 kernel 1"] | None = None,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """`conv_weight` needs query and memory of one length."""
    if min(q.shape[2], k.shape[2]) <= num_landmarks:
        mixed = F.scaled_dot_product_attention(q, k, v)
    else:
        q_landmarks, k_landmarks = segment_means(q, num_landmarks), segment_means(k, num_landmarks)
        inverse = iterative_pinv(_softmax_kernel(q_landmarks, k_landmarks), pinv_iterations)
        gathered = F.scaled_dot_product_attention(q_landmarks, k, v)
        gathered = inverse @ gathered.to(inverse.dtype)
        mixed = F.scaled_dot_product_attention(q, k_landmarks, gathered.to(v.dtype))
    return mixed if conv_weight is None else mixed + depthwise_convolution(v, conv_weight)


def segment_means(
    x: Float[Tensor, "batch heads length head_dim"], segments: int
) -> Float[Tensor, "batch heads segments head_dim"]:
    """Means of consecutive segments; the first `length % segments` of them are one step longer."""
    size, longer = divmod(x.shape[2], segments)
    head, tail = x.split([longer * (size + 1), (segments - longer) * size], dim=2)
    means = tail.unflatten(2, (segments - longer, size)).mean(3)
    if longer:
        means = torch.cat([head.unflatten(2, (longer, size + 1)).mean(3), means], dim=2)
    return means


def _softmax_kernel(q: Tensor, k: Tensor) -> Tensor:
    """softmax(Q̃ K̃ᵀ/√E), in float32 at least."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        return (q.to(dtype) @ k.to(dtype).mT * q.shape[-1] ** -0.5).softmax(-1)


def iterative_pinv(
    matrix: Float[Tensor, "batch heads landmarks landmarks"], iterations: int
) -> Float[Tensor, "batch heads landmarks landmarks"]:
    """Z ← ¼ Z (13 − AZ (15 − AZ (7 − AZ))) from Z = Aᵀ / (‖A‖₁ ‖A‖∞), A without negative entries."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    scale = matrix.sum(-2).amax(-1) * matrix.sum(-1).amax(-1)
    inverse = matrix.mT / scale[..., None, None]
    with torch.autocast(matrix.device.type, enabled=False):
        for _ in range(iterations):
            product = matrix @ inverse
            inner = 15 * identity - product @ (7 * identity - product)
            inverse = 0.25 * inverse @ (13 * identity - product @ inner)
    return inverse


def depthwise_convolution(
    v: Float[Tensor, "batch heads length head_dim"], weight: Float[Tensor, "heads 1 kernel 1"]
) -> Float[Tensor, "batch heads length head_dim"]:
    """Convolve every head along the length with its own kernel, zeros beyond the ends.

    Chunks of the length are multiplied with a banded matrix that holds the kernel in every row: matrix
    products, where a grouped convolution ran ten times slower on CPU.
    """
    length, kernel = v.shape[2], weight.shape[2]
    size = min(CHUNK, length)
    reach = size + kernel - 1  # inputs that one chunk of outputs looks at
    short = -length % size
    padded = F.pad(v, (0, 0, kernel // 2, kernel // 2 + short))
    windows = padded.unfold(2, reach, size)  # (batch, heads, chunks, head_dim, reach)
    # band[o, i] = weight[i - o] inside the kernel, else the zero that stands before it
    offset = torch.arange(reach, device=v.device) - torch.arange(size, device=v.device)[:, None]
    inside = (offset >= 0) & (offset < kernel)
    band = F.pad(weight[:, 0, :, 0], (1, 0))[:, torch.where(inside, offset + 1, 0)]
    out = band[:, None].to(v.dtype) @ windows.mT  # (batch, heads, chunks, size, head_dim)
    return out.flatten(2, 3)[:, :, :length]


class NystromAttention(Attention):
    """Softmax attention through landmarks; in role self plus a depthwise convolution of the values.

    `conv_kernel` "auto" is 33 in role self and none in role cross, where query and memory do not line up.
    """

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "cross"})

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
        if num_landmarks < 1:
            raise ValueError(f"nystrom num_landmarks must be at least 1, not {num_landmarks}")
        if pinv_iterations < 1:
            raise ValueError(f"nystrom pinv_iterations must be at least 1, not {pinv_iterations}")
        if conv_kernel == "auto":
            conv_kernel = 33 if role == "self" else None
        if conv_kernel is not None and role == "cross":
            raise ValueError(
                "nystrom conv_kernel must be null in role 'cross': a convolution needs one length"
            )
        if conv_kernel is not None and (
            not isinstance(conv_kernel, int) or conv_kernel < 1 or conv_kernel % 2 == 0
        ):
            raise ValueError(f"nystrom conv_kernel must be auto, null or an odd number, not {conv_kernel!r}")
        self.num_landmarks, self.pinv_iterations = num_landmarks, pinv_iterations
        self.conv_weight = None
        if conv_kernel is not None:
            bound = conv_kernel**-0.5  # a convolution's usual start
            self.conv_weight = nn.Parameter(torch.empty(n_heads, 1, conv_kernel, 1).uniform_(-bound, bound))

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return nystrom_attention(
            q,
            k,
            v,
            num_landmarks=self.num_landmarks,
            pinv_iterations=self.pinv_iterations,
            conv_weight=self.conv_weight,
        )
