"""An exported forecast as one ONNX file: written by PyTorch, run by onnxruntime."""

import json
import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from forecast.system.errors import ConfigError
from forecast.tools.export.difference import Run

OPSET = 18  # onnxruntime 1.14 (2023) and later
MAX_BYTES = 3 << 29  # bytes of weights; PyTorch writes more than that to a second file
RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")


def write_program(program: ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    """Write the forecast with its metadata `about`, whose values are saved as JSON.

    Raises:
        ConfigError: the weights are too large for one file, or the graph would draw random numbers.
    """
    from onnxscript import ir  # an optional package

    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    if size > MAX_BYTES:
        raise ConfigError(
            f"format=onnx: {size / 2**30:.1f} GiB of weights do not fit into one file: use format=torch_export"
        )
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of packages that are not needed
    exported = torch.onnx.export(
        program, dynamo=True, opset_version=OPSET, output_names=list(about["outputs"]), verbose=False
    )
    assert exported is not None
    graphs = [exported.model.graph, *exported.model.functions.values()]
    nodes = (node for graph in graphs for node in ir.traversal.RecursiveGraphIterator(graph))
    random = {node.op_type for node in nodes if node.op_type.startswith(RANDOM)}
    if random:
        raise ConfigError(f"the ONNX graph would draw random numbers: {', '.join(sorted(random))}")
    exported.model.metadata_props.update({key: json.dumps(value) for key, value in about.items()})
    exported.save(path)


def load_program(path: Path) -> Run:
    """The file as a function, run by onnxruntime on the CPU."""
    import onnxruntime  # an optional package

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        values = session.run(names, {name: tensor.numpy() for name, tensor in inputs.items()})
        return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}

    return run
