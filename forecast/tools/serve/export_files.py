"""The files of a model that is exported for the server, beside its checkpoint. Imports no torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecast import __version__

FORMAT = 2
"""Version of the content of the files."""


def graph_file(checkpoint: Path) -> Path:
    """The file that ONNX Runtime runs."""
    return checkpoint.with_suffix(".onnx")


def facts_file(checkpoint: Path) -> Path:
    """The JSON file with what else an answer needs."""
    return checkpoint.with_suffix(".onnx.json")


def file_state(file: Path) -> dict[str, Any]:
    """A key that changes if the file or this program changes."""
    stat = file.stat()
    return {
        "size": stat.st_size,
        "modified": stat.st_mtime_ns,
        "forecast_version": __version__,
        "format": FORMAT,
    }


def read_facts(checkpoint: Path) -> Mapping[str, Any] | None:
    """The content of the JSON file; None if there is none of this state of the checkpoint and of the graph."""
    try:
        content = json.loads(facts_file(checkpoint).read_bytes())
        is_current = content["checkpoint"] == file_state(checkpoint)
        is_current &= bool(content["obstacle"]) or content["graph"] == file_state(graph_file(checkpoint))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if is_current else None
