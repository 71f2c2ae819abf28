"""Reader of `.wandb` files: protobuf records of W&B in the log format of LevelDB."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, FILE_HEADER, HEADER = 32_768, 7, struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Record]:
    content, whole = path.read_bytes(), b""
    assert content[:4] == b":W&B"
    position = FILE_HEADER
    while position < len(content):
        if (left := BLOCK - position % BLOCK) < HEADER.size:
            position += left  # padding: the rest of a block is too short for a header
            continue
        if position + HEADER.size > len(content):
            return  # the writer was killed
        _, length, kind = HEADER.unpack_from(content, position)
        if kind == 0 or position + HEADER.size + length > len(content):
            return
        assert kind in (FULL, FIRST, MIDDLE, LAST)
        position += HEADER.size
        whole += content[position : position + length]
        position += length
        if kind in (FULL, LAST):
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


class WandbRun:
    def __init__(self, path: Path) -> None:
        self.config: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        for record in records(path):
            if record.HasField("run"):
                self.run = record.run
            elif record.HasField("config"):
                self.config |= {item.key: json.loads(item.value_json) for item in record.config.update}
            elif record.HasField("history"):
                items = record.history.item
                self.history.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
            elif record.HasField("summary"):
                items = record.summary.update
                self.summary |= {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}
            elif record.HasField("exit"):
                self.exit_code = record.exit.exit_code

    def curve(self, name: str) -> dict[int, float]:
        return {row["epoch"]: row[name] for row in self.history if name in row}
