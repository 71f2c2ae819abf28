"""The files of a model that is exported for the server, beside its checkpoint. Imports no torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecast import __version__


def graph_file(checkpoint: Path) -> Path:
    """The file that ONNX Runtime runs."""
    return checkpoint.with_suffix(".onnx")


def facts_file(checkpoint: Path) -> Path:
    """The JSON file with what else an answer needs."""
    return checkpoint.with_suffix(".onnx.json")


def checkpoint_state(checkpoint: Path) -> dict[str, Any]:
    """What changes if the checkpoint file or this program changes."""
    stat = checkpoint.stat()
    return {"size": stat.st_size, "modified": stat.st_mtime_ns, "forecast_version": __version__}


def read_facts(checkpoint: Path) -> Mapping[str, Any] | None:
    """The content of the JSON file; None if there is none of this state of the checkpoint."""
    try:
        content = json.loads(facts_file(checkpoint).read_bytes())
        is_current = content["checkpoint"] == checkpoint_state(checkpoint)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if is_current else None
