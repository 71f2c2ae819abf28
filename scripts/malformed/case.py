"""One malformed input and what becomes of it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forecast.system.errors import printable

WORKS = "works"


@dataclass(frozen=True)
class Case:
    """`content` is the bytes of the file `name`, or makes it at the path that it is given; no content, no file.

    `says` is what `python -m forecast.<program>` says after `error: `, with `{path}` for the file and `…` for what
    differs between machines; or `WORKS`: it reads the table that `malformed.tables` calls the good one.
    """

    what: str
    says: str
    content: bytes | Callable[[Path], object] | None = None
    overrides: tuple[str, ...] = ()
    name: str = "table.csv"
    program: str = "check"

    def is_said(self, line: str, path: Path) -> bool:
        """Whether this line on stderr is the one that the case expects."""
        expected = "error: " + self.says.replace("{path}", printable(str(path)))
        return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), line) is not None

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        if isinstance(self.content, bytes):
            path.write_bytes(self.content)
        elif self.content is not None:
            self.content(path)
        return path
