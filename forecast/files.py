"""Files that appear whole or not at all."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; on success it becomes `path`, else it goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON; NaN, which JSON lacks, becomes null."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(without_nan(content), indent=2, allow_nan=False) + "\n")


def without_nan(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
