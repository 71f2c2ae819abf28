"""Error and cost against the number of tokens, for runs that differ in the length of the attention."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecast.reports.colours import colour_number
from forecast.reports.compare.chart_data import round_values
from forecast.reports.compare.run_times import TIMES
from forecast.reports.compare.task import Entry, Task

MEASURES = {
    "ms_per_window": "inference time per window (ms)",
    "peak_memory_mb": "peak memory (MiB)",
    "seconds": "run time (s)",
}
"""What is drawn beside the error, by key in metrics.json."""

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
            if math.isfinite(value) and (run.timed_alone or key not in TIMES)
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
    """Return from how many tokens each attention type is faster than softmax, in sentences; empty without softmax."""
    softmax = lines.get(SOFTMAX)
    if softmax is None:
        return []
    shortest, longest = softmax[0].tokens, softmax[-1].tokens
    sentences = []
    for name in lines.keys() - {SOFTMAX}:
        tokens = find_crossover(lines[name], softmax)
        if math.isinf(tokens):
            where = f"slower than {SOFTMAX} at {longest:,} tokens"
        elif tokens:
            where = f"faster than {SOFTMAX} from about {tokens:,.0f} tokens on"
        else:
            where = f"faster than {SOFTMAX} from {shortest:,} tokens on"
        sentences.append(f"{name}: {where}.")
    return sorted(sentences)


def find_crossover(points: Sequence[Point], reference: Sequence[Point]) -> float:
    """Return the tokens from which on a cost is below that of the reference, up to the longest measured length.

    Between two measured lengths, the logarithms of the costs are interpolated linearly in the logarithm of the length.
    0: at every measured length; infinity: not at the longest.
    """
    other = {point.tokens: point.mean for point in reference}
    shared = [(p.tokens, math.log(p.mean / other[p.tokens])) for p in points if p.tokens in other]
    if not shared or shared[-1][1] >= 0:
        return math.inf
    slower = [i for i, (_, ratio) in enumerate(shared) if ratio >= 0]
    if not slower:
        return 0.0
    (n, above), (m, below) = shared[slower[-1]], shared[slower[-1] + 1]
    return math.exp(math.log(n) + above / (above - below) * math.log(m / n))
