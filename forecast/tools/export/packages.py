"""The packages that write and run ONNX files. Imports no torch."""

from importlib.util import find_spec

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def list_missing_packages() -> list[str]:
    """The packages of the extra `export` that are not installed."""
    return [package for package in ONNX_PACKAGES if find_spec(package) is None]
