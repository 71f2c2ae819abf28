"""Answers of reference implementations, recorded in tests/golden."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return dict(arrays)


def golden_tensors(name: str) -> dict[str, Any]:
    """Tensors by name; arrays without dimensions as Python numbers."""
    return {key: torch.from_numpy(a) if a.ndim else a.item() for key, a in golden(name).items()}
