import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forecast.system.errors import printable

WORKS = "works"


@dataclass(frozen=True)
class Case:
    """A file or settings, and the message of `python -m forecast.<program>`."""

    what: str  # description of the case
    says: str  # the message after `error: `, with `{path}` and `…` for text that varies; WORKS: read as the good table
    content: bytes | Callable[[Path], object] | None = None  # of the file, or what writes it at a path
    overrides: tuple[str, ...] = ()  # overrides of the command
    name: str = "table.csv"  # name of the file
    program: str = "check"  # the command

    def is_said(self, line: str, path: Path) -> bool:
        expected = "error: " + self.says.replace("{path}", printable(str(path)))
        return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), line) is not None

    @property
    def advice(self) -> list[tuple[str, ...]]:
        """The settings that the message names after "set", "as in" or "use", one row for each of its alternatives."""
        found: list[list[str]] = []
        for text in re.split(r"\b(?:set|as in|use) (?=[\"']?[a-z_.]+=)", self.says)[1:]:
            found.append([])
            words = re.findall(r"""'[^']*'|"[^"]*"|[^ ]+""", text)
            for word, after in zip(words, [*words[1:], ""], strict=True):
                setting = word[1:-1] if word[0] in "\"'" else word
                if "=" in setting:
                    found[-1].append(setting if setting.endswith("=,") else setting.removesuffix(","))
                elif word == "or" and "=" in after:
                    found.append([])
                elif word not in ("and", "at", "least"):
                    break
        return [tuple(settings) for settings in found if not settings[0].endswith("=FILE")]

    def typed(self, folder: Path, advice: Sequence[str], defaults: Sequence[str]) -> list[str]:
        """The overrides of a command on the file of the case, which is written, once the advice is taken."""
        own = () if advice and self.says.endswith("instead") else self.overrides
        given = dict.fromkeys([*defaults, f"data.path={self.write(folder)}", *own])
        keys = {setting.split("=")[0] for setting in advice}
        return [*(one for one in given if one.split("=")[0].lstrip("+") not in keys), *advice]

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        if isinstance(self.content, bytes):
            path.write_bytes(self.content)
        elif self.content is not None:
            self.content(path)
        return path


def advised(cases: Sequence[Case]) -> list[tuple[Case, tuple[str, ...]]]:
    """Each case whose message names settings, with the settings of each of its alternatives."""
    return [(case, settings) for case in cases for settings in case.advice]
