"""An exported forecast as a torch.export program: one .pt2 file, run by PyTorch alone."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from forecast.tools.export.difference import Run
from forecast.tools.export.graph import WINDOW_INPUTS

ABOUT = "about.json"


def write_program(program: ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    """Write the forecast with its metadata `about` as the extra file `ABOUT`."""
    torch.export.save(program, path, extra_files={ABOUT: json.dumps(about)})


def load_program(path: Path) -> Run:
    """The file as a function."""
    module = torch.export.load(path).module()

    @torch.no_grad()
    def run(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        more = {name: value for name, value in inputs.items() if name not in WINDOW_INPUTS}
        return module(*(inputs[name] for name in WINDOW_INPUTS), **more)

    return run
