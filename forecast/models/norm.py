"""Batch normalisation over the whole batch of all processes."""

from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """x̂ = (x − mean) / √(variance + eps) · weight + bias, mean and variance over the rows of all processes.

    With one process, and in evaluation, this is PyTorch's own layer. In training with several processes, each process
    must have the same number of rows; a step then equals the step of one process with the whole batch, running
    statistics included. `torch.nn.SyncBatchNorm` does the same on GPUs only.
    """

    def forward(self, x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
        if not (self.training and dist.is_initialized() and dist.get_world_size() > 1):
            return super().forward(x)
        rows = len(x) * dist.get_world_size()
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = MeanOverProcesses.apply(exact.mean(0))
        centred = exact - mean
        variance = MeanOverProcesses.apply(centred.square().mean(0))
        self._track(mean.detach(), variance.detach() * rows / (rows - 1))
        normal = centred * torch.rsqrt(variance + self.eps)
        return (normal * self.weight + self.bias).to(x.dtype)

    def _track(self, mean: Float[Tensor, " channels"], variance: Float[Tensor, " channels"]) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)
        self.num_batches_tracked += 1


class MeanOverProcesses(torch.autograd.Function):
    """Mean of a tensor over all processes; the gradient is the mean of the gradients of all processes."""

    @staticmethod
    def forward(ctx: Any, value: Float[Tensor, " channels"]) -> Float[Tensor, " channels"]:
        return mean_over_processes(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Float[Tensor, " channels"]) -> Float[Tensor, " channels"]:
        return mean_over_processes(gradients[0])


def mean_over_processes(value: Float[Tensor, " channels"]) -> Float[Tensor, " channels"]:
    """Average a tensor over all processes."""
    return sum_over_processes(value) / dist.get_world_size()


def sum_over_processes(values: Tensor) -> Tensor:
    """Add up a tensor over the processes of a run; without a process group, a copy. Every process must call this."""
    total = values.clone()
    if dist.is_initialized():
        dist.all_reduce(total)
    return total
