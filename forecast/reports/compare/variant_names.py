"""Names of variants: short, unique, made of the settings in which the variants differ."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from forecast.reports.compare.number_format import MISSING
from forecast.reports.compare.run_folders import FinishedRun
from forecast.runs.summary import headings, shorten_number

ATTENTION = "model.attention.name"


def format_settings(run: FinishedRun) -> dict[str, str]:
    """Return every setting of a run as text, without the seed. A class is given by its name."""
    found = {}
    for key, value in run.settings.items():
        if key != "seed":
            text = value if isinstance(value, str) else json.dumps(value)
            found[key] = text.rsplit(".", 1)[-1] if key.endswith("._target_") else text
    return found


def find_differences(settings: list[dict[str, str]], prefix: str = "") -> list[dict[str, str]]:
    """Return the settings in which configurations differ, by short name, one dictionary per configuration.

    Two kinds of settings are omitted: copies of another setting, such as `model.seq_len` of `seq_len`, and settings
    that follow from one that is already listed, such as AdamW's weight decay where every run with AdamW has the same.

    Args:
        settings: configurations as `format_settings` returns them.
        prefix: compare only keys that start with it.
    """
    keys = dict.fromkeys(key for one in settings for key in one if key.startswith(prefix))
    ordered = sorted(keys, key=lambda key: (key != ATTENTION, key.count("."), not key.endswith("._target_")))
    chosen: dict[str, tuple[str, ...]] = {}
    for key in ordered:
        values = tuple(one.get(key, MISSING) for one in settings)
        if len(set(values)) == 1 or values in chosen.values():
            continue
        choices = [column for other, column in chosen.items() if is_below(key, other)]
        same_name = [column for other, column in chosen.items() if other == key.rsplit(".", 1)[-1]]
        causes = [*choices, *same_name]
        if choices and count_groups([*causes, values]) == count_groups(causes):
            continue
        chosen[key] = values
    labels: dict[str, str] = {}
    for key in chosen:
        label = "attention" if key == ATTENTION else key.removesuffix("._target_")
        labels[key] = key if label in labels.values() else label
    short = headings(list(labels.values()))
    return [{short[labels[key]]: values[i] for key, values in chosen.items()} for i in range(len(settings))]


def is_below(key: str, choice: str) -> bool:
    """Return whether `choice` selects the class or name of the configuration group that contains `key`."""
    group, _, last = choice.rpartition(".")
    return last in ("_target_", "name") and key.startswith(f"{group}.")


def count_groups(columns: Iterable[tuple[str, ...]]) -> int:
    """Return the number of distinct rows of a table given by its columns."""
    return len(set(zip(*columns, strict=True)))


def find_majority(differences: list[dict[str, str]], key: str) -> str | None:
    """Return the value of a setting that more than half of the variants share, or None."""
    value, count = Counter(values[key] for values in differences).most_common(1)[0]
    return value if 2 * count > len(differences) else None


def name_variants(
    differences: list[dict[str, str]], settings: list[dict[str, str]], taken: Sequence[str] = ()
) -> list[str]:
    """Return a name for each configuration, as short as possible, different from all others and from `taken`.

    Names with shortened values are tried first, then names with full values, then names that also mention missing
    settings. If none of these are unique, the names are numbered.
    """
    majority = [find_majority(differences, key) for key in differences[0]]
    names: list[str] = []
    for omitted, shorten in ((MISSING, shorten_number), (MISSING, str), (None, str)):
        names = [
            name_variant(values, majority, one.get(ATTENTION, MISSING), omitted, shorten)
            for values, one in zip(differences, settings, strict=True)
        ]
        if len({*names, *taken}) == len(names) + len(taken):
            return names
    return [f"{number}. {name}" for number, name in enumerate(names, start=1)]


def name_variant(
    values: dict[str, str],
    majority: list[str | None],
    attention: str,
    omitted: str | None,
    shorten: Callable[[str], str],
) -> str:
    """Return a name such as `probsparse, d_model=32`.

    It starts with the attention type if the attention types differ, followed by the values that most variants do not
    share. Values equal to `omitted` are not mentioned.
    """
    parts = [values.get("attention", "")]
    for (key, value), common in zip(values.items(), majority, strict=True):
        if key != "attention" and value not in (common, omitted):
            parts.append(f"{key}={shorten(value)}")
    return ", ".join(part for part in parts if part) or attention
