"""Texts made from Jinja templates: pages, and a program."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def render(template: Path, **values: Any) -> str:
    """Fill in a template. In one of HTML, Jinja escapes names and settings, in the embedded JSON too."""
    environment = Environment(
        loader=FileSystemLoader(template.parent), autoescape=template.suffix == ".html", undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters["repr"] = repr
    return environment.get_template(template.name).render(**values)
