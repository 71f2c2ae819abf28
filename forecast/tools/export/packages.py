"""The packages that write and run ONNX files. Imports no torch."""

from collections.abc import Sequence
from importlib.util import find_spec

TORCH, ONNX_RUNTIME = "torch", "onnxruntime"
ONNX_PACKAGES = ("onnx", "onnxscript", ONNX_RUNTIME)


def list_missing_packages(packages: Sequence[str] = ONNX_PACKAGES) -> list[str]:
    """Those of the packages that are not installed, by default of the extra `export`."""
    return [package for package in packages if find_spec(package) is None]
