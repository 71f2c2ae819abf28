"""Read a `.wandb` file back: LevelDB's log format around W&B's own protobuf records."""

import struct
from collections.abc import Iterator
from pathlib import Path

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, FILE_HEADER, HEADER = 32_768, 7, struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Record]:
    content, whole = path.read_bytes(), b""
    assert content[:4] == b":W&B"
    position = FILE_HEADER
    while position < len(content):
        if (
            left := BLOCK - position % BLOCK
        ) < HEADER.size:  # the rest of a block too short for a header is padding
            position += left
            continue
        _, length, kind = HEADER.unpack_from(content, position)
        assert kind in (FULL, FIRST, MIDDLE, LAST)
        position += HEADER.size
        whole += content[position : position + length]
        position += length
        if kind in (FULL, LAST):
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""
