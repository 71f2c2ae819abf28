"""Settings that only the user of a file can choose: holidays and bounds."""

from collections.abc import Container

from forecast.system.arguments import quote_for_shell, write_mapping
from forecast.system.formatting import shorten
from forecast.tools.check.diagnosis import Diagnosis


def describe_options(diagnosis: Diagnosis, typed: Container[str]) -> list[str]:
    """Settings that depend on what the numbers are, and are not suggested; `typed`: the keys that are set."""
    lines = []
    if any(season.name == "a week" for season in diagnosis.seasons) and "data.holidays" not in typed:
        lines.append(
            "if public holidays matter: data.holidays=COUNTRY, such as US, DE or DE-BY (extra holidays)"
        )
    positive = [
        column.name
        for column in diagnosis.columns
        if column.name in diagnosis.targets and column.minimum >= 0
    ]
    if positive and "data.lower" not in typed:
        if len(positive) == len(diagnosis.targets):
            lines.append(
                "no target is ever negative: if none can be, data.lower=0 keeps forecasts at or above 0"
            )
        else:
            named = shorten(positive)
            example = quote_for_shell(f"data.lower={write_mapping(positive[0], 0)}")
            lines.append(f"never negative: {named}; for one that cannot be: {example}")
    return lines
