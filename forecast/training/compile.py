"""`compile=true`: torch.compile, with a warning on machines that have no compiler."""

import warnings

import torch
from torch import nn


def compile_where_possible(model: nn.Module, device: torch.device) -> None:
    """Compile the model's forward pass for `device`, in place; without a compiler, warn and leave it as it is.

    PyTorch notices a missing C++ compiler, Triton or setuptools only at the first step. Therefore an addition is
    compiled first, which costs no time that the model would not cost.
    """
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(2, device=device))
    except RuntimeError as error:  # the base class of PyTorch's compiler errors
        reason = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
        warnings.warn(
            f"compile=true: no working compiler here ({reason}); training continues uncompiled", stacklevel=2
        )
    else:
        model.compile()
