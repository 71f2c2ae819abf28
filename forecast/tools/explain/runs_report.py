"""The report of the attention layers of several runs: sentences, tables, pictures and a page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from forecast.reports.colours import DARK, LIGHT
from forecast.reports.compare.layer_table import ENTROPY, RECENT, SOFTMAX, UNEVEN
from forecast.reports.figures import subplots
from forecast.system.formatting import plural
from forecast.tools.explain.page import encode_figure, render
from forecast.tools.explain.runs import LayerRow, LayerStudy

MAX_EVEN_SHARE = 0.05
"""A map is called even if less of its weight differs from uniform."""
LABEL_WIDTH = 24  # characters of a line of a variant's name in a picture; the tables hold the whole name
CONTROLS = ("none", "uniform")


def name_quantities(season: int) -> dict[str, str]:
    """Return the headings of the numbers, by name."""
    return {
        ENTROPY: "entropy, % of uniform",
        UNEVEN: "differs from uniform, %",
        SOFTMAX: "output differs from softmax, %",
        RECENT: f"on the last {season} steps (uniform), %",
    }


def describe_layers(study: LayerStudy) -> list[str]:
    """Say which layers mix like uniform attention, and which layer differs most from it."""
    largest: dict[tuple[str, str], float] = {}  # of α and β
    for row in study.rows:
        if row.number == UNEVEN and row.attention not in CONTROLS:
            place = row.variant, row.layer.replace(", layer", " layer")
            largest[place] = max(row.mean, largest.get(place, 0))
    even: dict[str, list[tuple[str, float]]] = {}
    for (variant, layer), share in largest.items():
        if share < MAX_EVEN_SHARE:
            even.setdefault(variant, []).append((layer, share))
    sentences = [describe_even(variant, layers) for variant, layers in even.items()]
    if not sentences:
        sentences.append(
            f"No layer is even: in each, at least {MAX_EVEN_SHARE:.0%} of the weight differs from uniform."
        )
    if largest:
        (variant, layer), share = max(largest.items(), key=lambda item: item[1])
        sentences.append(
            f"{layer} of {variant} differs most from uniform attention: by {share:.0%} of the weight."
        )
    if study.left_out:
        sentences.append(
            f"{plural(len(study.left_out), 'run')} left out, because no attention layer has a map and changes the "
            f"forecast: {', '.join(study.left_out)}."
        )
    return [sentence[0].upper() + sentence[1:] for sentence in sentences]


def describe_even(variant: str, layers: Sequence[tuple[str, float]]) -> str:
    """Say that layers of a variant, with the shares of their weight that differ from uniform, are even."""
    places, most = " and ".join(layer for layer, _ in layers), max(share for _, share in layers)
    share = f"{most:.1%} of the weight differs"
    if len(layers) == 1:
        return f"{places} of {variant} is even: it mixes like uniform attention ({share})."
    return f"{places} of {variant} are even: they mix like uniform attention (at most {share})."


def tabulate(study: LayerStudy) -> dict[str, list[list[str]]]:
    """Return the rows of the table of each layer: variant, attention type of the layer, and the numbers."""
    maps: dict[tuple[str, str, str, str], dict[str, LayerRow]] = {}
    for row in study.rows:
        maps.setdefault((row.layer, row.variant, row.attention, row.map), {})[row.number] = row
    tables: dict[str, list[list[str]]] = {}
    for (layer, variant, attention, name), numbers in maps.items():
        cells = [format_percent(numbers.get(key)) for key in name_quantities(study.season)]
        tables.setdefault(layer, []).append([variant, f"{attention} {name}".strip(), *cells])
    return tables


def format_percent(row: LayerRow | None) -> str:
    """Return `41.2 ± 3.0`, with the value of uniform attention in brackets where it depends on the layer."""
    if row is None or math.isnan(row.mean):
        return "–"
    deviation = "" if math.isnan(row.std) else f" ± {100 * row.std:.1f}"
    beside = f" ({100 * row.uniform:.1f})" if row.number == RECENT else ""
    return f"{100 * row.mean:.1f}{deviation}{beside}"


def draw_quantity(
    study: LayerStudy, number: str, heading: str, colours: Mapping[str, int], *, dark: bool
) -> Figure:
    """Draw one number of every layer and variant: a panel per layer, a row per variant, with standard deviations."""
    chosen = [row for row in study.rows if row.number == number]
    layers, variants = list(dict.fromkeys(row.layer for row in chosen)), list(colours)
    labels = ["\n".join(wrap(name, LABEL_WIDTH, max_lines=2, placeholder=" …")) for name in variants]
    ink, paper, palette = ("#e4e9ee", "#14191f", DARK) if dark else ("#222222", "#ffffff", LIGHT)
    height = 0.5 + len(layers) * (0.45 + 0.27 * len(variants))
    figure, axes = subplots(
        len(layers), 1, figsize=(5.6, height), squeeze=False, sharex=number != RECENT, layout="constrained"
    )
    figure.set_facecolor(paper)
    for axis, layer in zip(axes[:, 0], layers, strict=True):
        for row in (row for row in chosen if row.layer == layer):
            place = variants.index(row.variant) + {"α": -0.18, "β": 0.18}.get(row.map, 0)
            colour = palette[colours[row.variant]]
            axis.plot(100 * row.uniform, place, marker="|", color=ink, markersize=11, alpha=0.7)
            axis.errorbar(
                100 * row.mean, place, xerr=np.nan_to_num(100 * row.std), fmt="s" if row.map == "β" else "o",
                color=colour, markersize=4.5, capsize=2, linewidth=1.2,
            )  # fmt: skip
        axis.set_title(layer, fontsize=9, color=ink, loc="left")
        axis.set_yticks(range(len(variants)), labels, fontsize=8, parse_math=False)
        axis.set_ylim(len(variants) - 0.5, -0.5)
        axis.set_facecolor(paper)
        axis.tick_params(colors=ink, labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(ink)
        axis.grid(axis="x", color=ink, alpha=0.12)
    axes[-1, 0].set_xlabel(heading, fontsize=9, color=ink)
    return figure


def write_report(
    folder: Path, title: str, facts: Sequence[str], study: LayerStudy, colours: Mapping[str, int]
) -> None:
    """Write numbers.csv, a picture of each number and index.html. `colours` numbers the colour of each variant."""
    pd.DataFrame(map(asdict, study.rows)).to_csv(folder / "numbers.csv", index=False)
    quantities, images = name_quantities(study.season), []
    for number, heading in quantities.items():
        if all(row.number != number for row in study.rows):
            continue
        light, dark = (draw_quantity(study, number, heading, colours, dark=dark) for dark in (False, True))
        light.savefig(folder / f"{number}.png", dpi=110)
        images.append({"name": heading, "light": encode_figure(light), "dark": encode_figure(dark)})
    page = render(
        "runs.html", title=title, facts=facts, images=images, tables=tabulate(study),
        headings=["variant", "layer's attention", *quantities.values()],
    )  # fmt: skip
    (folder / "index.html").write_text(page, encoding="utf-8")


def print_report(title: str, facts: Sequence[str], study: LayerStudy) -> None:
    """Print the sentences and a table of each layer."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(title, style="bold")
    for fact in facts:
        console.print(fact)
    for layer, rows in tabulate(study).items():
        table = Table(title=layer, title_justify="left")
        for i, heading in enumerate(("variant", "attention", *name_quantities(study.season).values())):
            table.add_column(heading, justify="left" if i < 2 else "right")
        for row in rows:
            table.add_row(*row)
        Console(markup=False).print(table)
