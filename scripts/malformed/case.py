"""A malformed input and the message that it causes."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forecast.system.errors import printable

WORKS = "works"


@dataclass(frozen=True)
class Case:
    """A file or settings, and the message of `python -m forecast.<program>`.

    Attributes:
        what: description of the case.
        says: the message after `error: `, with `{path}` for the file and `…` for text that differs between machines;
            or `WORKS` if the file is read as the table of `malformed.tables`.
        content: the bytes of the file, or a function that writes it at the given path; None: there is no file.
        overrides: overrides of the command.
        name: name of the file.
        program: the command.
    """

    what: str
    says: str
    content: bytes | Callable[[Path], object] | None = None
    overrides: tuple[str, ...] = ()
    name: str = "table.csv"
    program: str = "check"

    def is_said(self, line: str, path: Path) -> bool:
        """Return whether this line on stderr is the expected one."""
        expected = "error: " + self.says.replace("{path}", printable(str(path)))
        return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), line) is not None

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        if isinstance(self.content, bytes):
            path.write_bytes(self.content)
        elif self.content is not None:
            self.content(path)
        return path
