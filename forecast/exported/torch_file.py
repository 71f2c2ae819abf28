"""An exported forecast as a torch.export program: one .pt2 file that needs PyTorch alone."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from forecast.exported.difference import Run

ABOUT = "about.json"


def check_installed() -> None:
    """PyTorch is."""


def write(program: ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    """`about` goes into the file as the extra file `ABOUT`."""
    torch.export.save(program, path, extra_files={ABOUT: json.dumps(about)})


def load(path: Path) -> Run:
    module = torch.export.load(path).module()

    @torch.no_grad()
    def run(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return module(*inputs.values())

    return run
