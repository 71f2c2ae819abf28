"""Paths: of the user, of the configuration folder in a checkout and in a wheel; the command that installs an extra."""

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
CONF = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
UNPINNED = {"fev"}
"""Extras whose packages exclude versions of constraints.txt."""


def user_path(path: str | os.PathLike[str]) -> Path:
    """A path that a user typed: `~` is the home folder; `~name` stays where there is no such user."""
    return Path(os.path.expanduser(path))


def install_command(extra: str) -> str:
    """The command that installs an extra of pyproject.toml: in a checkout, or of an installed wheel."""
    if CONF.parent == _PACKAGE:
        return f"pip install 'informer-forecast[{extra}]'"
    if extra in UNPINNED:
        return f"pip install -e '.[{extra}]'"
    return f"pip install -c constraints.txt -e '.[{extra}]'"
