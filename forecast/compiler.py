"""`compile=true`: torch.compile where there is a compiler, and one line where there is none."""

import warnings

import torch
from torch import nn


def compile_where_possible(model: nn.Module, device: torch.device) -> None:
    """Compile the model's forward pass for `device`, in place.

    PyTorch finds out that it has no C++ compiler, Triton or setuptools only at the first step, so a kernel of one
    addition is compiled first; it takes no time that the model would not take.
    """
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(2, device=device))
    except RuntimeError as error:  # PyTorch's own errors of compiling are all of this kind
        reason = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
        warnings.warn(f"compile=true: no working compiler here ({reason}); going on uncompiled", stacklevel=2)
    else:
        model.compile()
