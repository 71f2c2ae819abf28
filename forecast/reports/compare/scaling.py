"""Error and cost against the number of tokens, for runs that differ in the length of the attention."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecast.reports.colours import colour_number
from forecast.reports.compare.chart_data import round_values
from forecast.reports.compare.entry import Entry
from forecast.reports.compare.task import Task

MEASURES = {
    "ms_per_window": "inference time per window (ms)",
    "peak_memory_mb": "peak memory (MiB)",
    "seconds": "run time (s)",
}
"""Quantities that are drawn beside the error, by key in metrics.json."""

SOFTMAX = "full"


@dataclass(frozen=True)
class Point:
    """One attention type at one number of tokens: the mean, lowest and highest value over seeds and other settings."""

    tokens: int
    mean: float
    low: float
    high: float


def count_tokens(entry: Entry) -> int | None:
    """Return the tokens that the encoder attends to; None for a model without attention layers."""
    slots = entry.runs[0].metrics.get("attention_slots") or {}
    return int(slots["encoder"]["keys"]) if "encoder" in slots else None


def measure_scaling(task: Task, key: str) -> dict[str, list[Point]]:
    """Return a score or cost by attention type and number of tokens, for the types that were run at several.

    Times that were measured while another compared run ran are left out.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for entry in task.unmerged_variants:
        tokens = count_tokens(entry)
        values = [
            value
            for run, value in zip(entry.runs, entry.values(key), strict=True)
            if math.isfinite(value) and key not in run.disturbed
        ]
        if tokens and values:
            of_type = found.setdefault(str(entry.runs[0].metrics["attention"]), {})
            of_type.setdefault(tokens, []).extend(values)
    return {
        name: [Point(n, float(np.mean(v)), min(v), max(v)) for n, v in sorted(by_tokens.items())]
        for name, by_tokens in found.items()
        if len(by_tokens) > 1
    }


def make_scaling_charts(task: Task) -> list[dict[str, Any]]:
    """Return the data of the charts of cost and error against the tokens; empty without runs at several lengths."""
    headings = {**MEASURES, task.best.score: f"{task.score_label} (scaled)"}
    found = {key: measure_scaling(task, key) for key in headings}
    return [
        {"heading": headings[key], "is_cost": key in MEASURES, "lines": make_lines(lines)}
        for key, lines in found.items()
        if lines
    ]


def make_lines(lines: dict[str, list[Point]]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "colour": colour_number(name, list(lines)),
            "tokens": [point.tokens for point in points],
            "mean": round_values([point.mean for point in points]),
            "low": round_values([point.low for point in points]),
            "high": round_values([point.high for point in points]),
        }
        for name, points in lines.items()
    ]


def describe_crossovers(lines: dict[str, list[Point]]) -> list[str]:
    """Return from how many tokens on each attention type is faster than softmax; empty without softmax."""
    softmax = {point.tokens: point for point in lines.get(SOFTMAX, ())}
    sentences = []
    for name in sorted(lines.keys() - {SOFTMAX}):
        pairs = [(point, softmax[point.tokens]) for point in lines[name] if point.tokens in softmax]
        if pairs:
            sentences.append(f"{name}: {describe_crossover(pairs)}.")
    return sentences


def describe_crossover(pairs: Sequence[tuple[Point, Point]]) -> str:
    """Return from how many tokens on a cost is below that of softmax.

    Args:
        pairs: the cost of the attention type and that of softmax at each length, the shortest first. A cost is lower if
            its highest value is below the lowest value of the other.
    """
    longest = f"{pairs[-1][0].tokens:,}"
    faster = [point.high < softmax.low for point, softmax in pairs]
    if not faster[-1]:
        point, softmax = pairs[-1]
        is_slower = point.low > softmax.high
        return f"{'slower than' if is_slower else 'no clear difference from'} {SOFTMAX} at {longest} tokens"
    if len(faster) == 1:
        return f"faster than {SOFTMAX} at {longest} tokens"
    if all(faster):
        return f"faster than {SOFTMAX} from {pairs[0][0].tokens:,} tokens on"
    last = len(faster) - 1 - faster[::-1].index(False)
    (before, softmax), (after, _) = pairs[last], pairs[last + 1]
    if before.low > softmax.high:
        tokens = interpolate_crossover(*pairs[last : last + 2])
        bounds = f"slower at {before.tokens:,}, faster at {after.tokens:,}"
        return f"faster than {SOFTMAX} from about {tokens:,.0f} tokens on ({bounds})"
    return f"faster than {SOFTMAX} from {after.tokens:,} tokens on; no clear difference at {before.tokens:,}"


def interpolate_crossover(before: tuple[Point, Point], after: tuple[Point, Point]) -> float:
    """Return the tokens at which two mean costs are equal: their logarithms are linear in that of the tokens."""
    above, below = (math.log(point.mean / softmax.mean) for point, softmax in (before, after))
    n, m = before[0].tokens, after[0].tokens
    return n * (m / n) ** (above / (above - below))
