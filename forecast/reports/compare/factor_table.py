"""The table and the sentences on a factor: which of its values to use, over all tasks and settings."""

import math

from forecast.reports.compare.factors import Factor
from forecast.reports.compare.findings import EQUIVALENCE_MARGIN, describe_inconclusive, recommend_fastest
from forecast.reports.compare.html_tables import VERDICT_STYLES, Cell, HtmlTable
from forecast.reports.compare.number_format import (
    MISSING,
    format_interval,
    format_number,
    format_p_value,
    format_percent,
)
from forecast.reports.compare.task import EQUAL, NOT_SIGNIFICANT, Column
from forecast.system.formatting import plural

COLUMNS = (
    Column("verdict", "verdict", "result of the test against the best value at the 5 % level", "neither"),
    Column("change", "vs best", "mean relative difference of the error from the best value's", "neither"),
    Column(
        "interval", "95 % interval", "of that difference; the intervals have simultaneous coverage", "neither"
    ),
    Column("p", "p", "adjusted p-value", "neither"),
    Column("skill", "skill", "1 − geometric mean of error / error of the best baseline", "neither"),
    Column("spread", "skill (95 %)", "its 95 % interval over seeds: stratified bootstrap", "neither"),
    Column("cost", "time vs best", "inference time per window relative to the best value's", "neither"),
    Column("wins", "win rate", "share of all pairs with another value that this one wins", "neither"),
    Column("rank", "average rank", "over the tasks; 1: the lowest error in every task", "neither"),
)


def make_factor_table(factor: Factor) -> HtmlTable:
    """Return one row per value of the factor: its error relative to the best value's, skill, ranks and cost."""
    rows = [("best" if level == factor.best else "", make_cells(factor, level)) for level in factor.levels]
    name = Column(factor.name, factor.name, "value of the setting", "neither")
    return HtmlTable(f"{factor.name}, {describe_extent(factor)}", [name, *COLUMNS], rows)


def make_cells(factor: Factor, level: str) -> list[Cell]:
    verdict, (skill, low, high) = factor.verdict(level), factor.skill(level)
    difference = factor.differences.get(level)
    tests = [Cell(MISSING, 0.0), Cell(MISSING), Cell(MISSING)]
    if difference is not None:
        tests = [
            Cell(format_percent(difference.mean), difference.mean),
            Cell(format_interval(difference)),
            Cell(format_p_value(difference.adjusted_p_value)),
        ]
    rank, cost = factor.average_rank(level), factor.relative_cost(level)
    return [
        Cell.from_text(level),
        Cell.from_text(verdict, VERDICT_STYLES.get(verdict, "tied")),
        *tests,
        Cell.from_number(skill, style="bad" if skill < 0 else ""),
        Cell(MISSING if math.isnan(low) else f"[{format_number(low)}, {format_number(high)}]"),
        Cell(MISSING if math.isnan(cost) else f"{cost:.2f} ×", None if math.isnan(cost) else cost),
        Cell(f"{factor.win_rate(level):.0%}", factor.win_rate(level)),
        Cell(f"{rank:.2f}", rank),
    ]


def describe_extent(factor: Factor) -> str:
    """Return over how many comparisons and tasks the factor is averaged."""
    comparisons = plural(len(factor.cells), "comparison")
    return f"averaged over {comparisons} that differ in it alone, in {plural(len(factor.tasks), 'task')}"


def describe_factor(factor: Factor) -> list[str]:
    """Return which value to use and at what cost; which are inconclusive; and whether the baselines are better."""
    verdicts = {level: factor.verdict(level) for level in factor.levels[1:]}
    tied = [level for level, verdict in verdicts.items() if verdict in (NOT_SIGNIFICANT, EQUAL)]
    equivalent = [
        level
        for level in tied
        if verdicts[level] == EQUAL or factor.differences[level].relative_interval()[1] <= EQUIVALENCE_MARGIN
    ]
    others = [level for level in tied if level not in equivalent]
    advice = recommend_level(factor, verdicts, equivalent)
    if others and not equivalent:
        advice = f"{factor.best} has the lowest error; no value is known to be the best."
    sentences = [f"By {factor.name}, {describe_extent(factor)}: {advice}"]
    if others:
        sentences.append(describe_inconclusive(others))
    if factor.skill(factor.best)[0] < 0:
        sentences.append(
            "Over these comparisons, the best baselines have a lower error than every value: use a baseline."
        )
    if factor.left_out:
        sentences.append(f"Left out, because some comparisons lack them: {', '.join(factor.left_out)}.")
    return sentences


def recommend_level(factor: Factor, verdicts: dict[str, str], equivalent: list[str]) -> str:
    """Return the fastest of the best level and its equivalent ones, and why it is recommended."""
    best = factor.best
    unknown = dict.fromkeys(
        verdict for verdict in verdicts.values() if verdict not in ("worse", NOT_SIGNIFICANT, EQUAL)
    )
    if unknown:
        return f"{best} has the lowest error ({', '.join(unknown)})."
    if set(verdicts.values()) == {EQUAL}:
        return "all values make the same forecasts."
    costs = {level: factor.relative_costs(level) for level in (best, *equivalent)}

    def describe_cost(level: str) -> str:
        return (
            ""
            if level == best
            else f", with {factor.relative_cost(level):.2f} times the inference time of {best}"
        )

    def difference(level: str) -> str:
        change = factor.differences[level]
        return f"{format_percent(change.mean)} {format_interval(change)}"

    advice = recommend_fastest(
        costs,
        noun="value",
        lowest="has the lowest error",
        describe_cost=describe_cost,
        difference=difference,
    )
    return f"use {advice}"
