"""The settings of a run, from its config.yaml."""

from typing import Any

import yaml

from forecast.system.identity import VARIANT_EFFECTS, identity

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


def select_compared(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that affect the tested forecasts, by dotted key. A setting that is null counts as absent.

    Paths in the run's own folder are omitted.
    """
    folder = str(config.get("output_dir"))
    settings = {}
    for key, value in identity(config, VARIANT_EFFECTS).items():
        if key == "checkpoint" and value is not None:
            value = "another run's"  # each seed starts from a checkpoint of its own
        is_own_path = isinstance(value, str) and value.startswith(f"{folder}/")
        if value is not None and not is_own_path:
            settings[key] = value
    return settings
