"""Rows of --help that describe keys: the comment beside each key in conf/, and its default. Imports no torch."""

import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from forecast.system.arguments import write_value
from forecast.system.paths import CONF

WIDTH, INDENT, NAME_WIDTH = 120, 2, 20
"""Characters of a line, before a row, and of the column of names."""

LINE = re.compile(r"(?P<indent> *)(?P<key>[\w.]+):(?P<value>.*?)(?:(?<=\s)# (?P<comment>.*))?$")
"""A line of a YAML file with a key."""


def describe_keys(*names: str, _root_: DictConfig) -> str:
    """Describe keys of the command of a configuration in one row each; the resolver `key_help` of help texts.

    Args:
        names: dotted keys.
        _root_: the configuration, with the defaults of the options that are chosen.
    """
    rows = (format_row(name, find_comment(_root_, name), default_of(_root_, name)) for name in names)
    return "\n".join(rows)


def default_of(config: DictConfig, name: str) -> str:
    """The default of a key as it is typed; empty for null and false, and where the chosen options have no such key."""
    value = OmegaConf.select(config, name)
    value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    return "" if value is None or value is False else write_value(value)


def format_row(name: str, comment: str, default: str) -> str:
    """Write a row: the name, and beside it the comment and the default, in several lines if they are long."""
    text = f"{comment} (default: {default})" if default else comment
    width = WIDTH - INDENT - NAME_WIDTH
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    first = name.ljust(NAME_WIDTH - 2) + "  "
    return f"\n{' ' * (INDENT + NAME_WIDTH)}".join([f"{' ' * INDENT}{first}{lines[0]}", *lines[1:]])


def find_comment(config: DictConfig, name: str) -> str:
    """Find the comment on a key: in the files of the command, of the chosen option of its group, of the other options.

    Raises:
        KeyError: no file has a comment on this key.
    """
    group, _, key = name.partition(".")
    chosen = f"{config.hydra.runtime.choices.get(group)}.yaml"
    options = sorted((CONF / group).rglob("*.yaml"), key=lambda path: (path.name != chosen, path))
    places = [(path, name) for path in files_of_command(config.hydra.job.name)] + [
        (path, key) for path in options
    ]
    found = (read_comments(path).get(key) for path, key in places)
    comment = next(filter(None, found), None)
    if comment is None:
        raise KeyError(f"conf/ has no comment on the key {name}")
    return comment


def files_of_command(command: str) -> Iterator[Path]:
    """The file of a command, and those that its defaults name beside it."""
    path = CONF / f"{command}.yaml"
    yield path
    for name in re.findall(r"^  - (\w+)$", path.read_text("utf-8"), re.MULTILINE):
        if name != "_self_":
            yield from files_of_command(name)


@cache
def read_comments(path: Path) -> dict[str, str]:
    """Read the comments beside the keys of a YAML file, by dotted key; a comment may continue in the lines below."""
    comments: dict[str, str] = {}
    parents: list[tuple[int, str]] = []  # the keys above, with their indents
    name, column = "", -1
    for line in path.read_text("utf-8").splitlines():
        if name and line.strip().startswith("# ") and line.index("#") == column:
            comments[name] += " " + line.strip().removeprefix("# ")
            continue
        name, match = "", LINE.fullmatch(line)
        if match is None:
            continue
        indent = len(match["indent"])
        parents = [*(each for each in parents if each[0] < indent), (indent, match["key"])]
        if match["comment"]:
            name, column = ".".join(key for _, key in parents), line.index("# ")
            comments[name] = match["comment"]
    return comments
