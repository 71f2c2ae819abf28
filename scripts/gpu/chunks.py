"""Time and memory of the gated delta rule by the positions of a chunk, on a CUDA device: `python -m gpu.chunks`."""

import torch
import torch.nn.functional as F

from forecast.attention import delta_rule
from forecast.tools.benchmark.measurement import time_in_turn

TOKENS, HEADS, HEAD_DIM = 131_072, 8, 64
LENGTHS, SIZES = (1024, 16_384, 32_768, 131_072), (32, 64, 128, 256)


def main() -> None:
    for length in LENGTHS:
        for role in ("self", "causal"):
            cells = " | ".join(f"{size}: {measure(length, role, size)}" for size in SIZES)
            print(f"{length} {role} | {cells}", flush=True)


def measure(length: int, role: str, size: int) -> str:
    """Return the milliseconds and the peak GiB of forward and backward."""
    shape = (TOKENS // length, HEADS, length)
    q, k, v = (
        F.normalize(torch.randn(*shape, HEAD_DIM, device="cuda"), dim=-1).bfloat16().requires_grad_()
        for _ in range(3)
    )
    gates = {"log_decay": -torch.rand(shape, device="cuda"), "strength": torch.rand(shape, device="cuda")}
    delta_rule.chunk_size = lambda length, head_dim, *, gpu: size
    torch.cuda.reset_peak_memory_stats()
    (timing,) = time_in_turn([lambda: delta_rule.delta_rule(q, k, v, role=role, **gates).sum().backward()], 3)
    return f"{1000 * timing.median:.1f} ms, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"


if __name__ == "__main__":
    main()
