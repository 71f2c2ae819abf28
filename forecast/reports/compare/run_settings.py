"""The settings of a run, from its config.yaml."""

from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, if installed, is many times faster
MAX_NESTING = 50  # levels of nested settings


def parse_settings(text: str) -> Any:
    """Parse a configuration file of a run.

    Aliases and deep nesting are refused before loading: libyaml expands aliases until memory is full, and follows
    nesting until the stack overflows.

    Raises:
        ValueError: the file contains an alias, or is nested more than MAX_NESTING levels deep.
    """
    if "*" in text or any(text.count(mark) > MAX_NESTING for mark in ("[", "{", "- ", "? ")):
        depth = 0
        for event in yaml.parse(text, LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_NESTING or isinstance(event, yaml.AliasEvent):
                raise ValueError("config.yaml has YAML aliases or is nested too deep, so no run wrote it")
    return yaml.load(text, LOADER)
