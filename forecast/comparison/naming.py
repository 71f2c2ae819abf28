"""What configurations are called: by the settings in which they differ, and by no two the same."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from forecast.comparison.runs import Run
from forecast.sweep import headings, shortened

ATTENTION = "model.attention.name"
MISSING = "–"


def settings_in_text(run: Run) -> dict[str, str]:
    """Every setting but the seed as text; of a class, its name."""
    found = {}
    for key, value in run.settings.items():
        if key != "seed":
            text = value if isinstance(value, str) else json.dumps(value)
            found[key] = text.rsplit(".", 1)[-1] if key.endswith("._target_") else text
    return found


def told_apart(settings: list[dict[str, str]], under: str = "") -> list[dict[str, str]]:
    """For each of several configurations, the values in which they differ, by short name.

    Two kinds of settings are left out: copies of another one, such as `model.seq_len` of `seq_len`; and what follows
    from a choice that is named already, such as AdamW's weight decay from `optimizer` where all AdamWs have the same.
    """
    keys = dict.fromkeys(key for one in settings for key in one if key.startswith(under))
    ordered = sorted(keys, key=lambda key: (key != ATTENTION, key.count("."), not key.endswith("._target_")))
    chosen: dict[str, tuple[str, ...]] = {}
    for key in ordered:
        values = tuple(one.get(key, MISSING) for one in settings)
        if len(set(values)) == 1 or values in chosen.values():
            continue
        choices = [column for other, column in chosen.items() if is_below(key, other)]
        same_name = [column for other, column in chosen.items() if other == key.rsplit(".", 1)[-1]]
        causes = [*choices, *same_name]
        if choices and n_groups([*causes, values]) == n_groups(causes):
            continue
        chosen[key] = values
    labels: dict[str, str] = {}
    for key in chosen:
        label = "attention" if key == ATTENTION else key.removesuffix("._target_")
        labels[key] = key if label in labels.values() else label
    short = headings(list(labels.values()))
    return [{short[labels[key]]: values[i] for key, values in chosen.items()} for i in range(len(settings))]


def is_below(key: str, choice: str) -> bool:
    """Whether `choice` names what was chosen for the part of the configuration that `key` lies in."""
    part, _, last = choice.rpartition(".")
    return last in ("_target_", "name") and key.startswith(f"{part}.")


def n_groups(columns: Iterable[tuple[str, ...]]) -> int:
    return len(set(zip(*columns, strict=True)))


def ordinary(told: list[dict[str, str]], key: str) -> str | None:
    """The value of a setting that more than half of the variants have, if there is one."""
    value, count = Counter(values[key] for values in told).most_common(1)[0]
    return value if 2 * count > len(told) else None


def variant_names(
    told: list[dict[str, str]], settings: list[dict[str, str]], taken: Sequence[str] = ()
) -> list[str]:
    """A name for each configuration, unlike all others and those `taken`: as short as that allows.

    Values are cut short, then whole, then also said where a setting is missing; the last resort is a number.
    """
    common = [ordinary(told, key) for key in told[0]]
    names: list[str] = []
    for skipped, cut in ((MISSING, shortened), (MISSING, str), (None, str)):
        names = [
            variant_name(values, common, one.get(ATTENTION, MISSING), skipped, cut)
            for values, one in zip(told, settings, strict=True)
        ]
        if len({*names, *taken}) == len(names) + len(taken):
            return names
    return [f"{number}. {name}" for number, name in enumerate(names, start=1)]


def variant_name(
    values: dict[str, str],
    common: list[str | None],
    attention: str,
    skipped: str | None,
    cut: Callable[[str], str],
) -> str:
    """`probsparse, d_model=32`: the attention, if it tells variants apart, and what else is not as in most of them."""
    parts = [values.get("attention", "")]
    for (key, value), usual in zip(values.items(), common, strict=True):
        if key != "attention" and value not in (usual, skipped):
            parts.append(f"{key}={cut(value)}")
    return ", ".join(part for part in parts if part) or attention
