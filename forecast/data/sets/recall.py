"""A synthetic plant with six products, whose output of the next week was last seen a month or two before.

672,000 rows from 1990-01-01, every half hour: `output`; `now_1` … `now_6`, 1 for the product being made; `next_1` …
`next_6`, 1 for the product of the same half hour a week later: the plan is known a week ahead. Nothing was measured.

What there is to learn: one product a week, Monday to Sunday; nights with less output; and a level of output that lasts
a week and is nearly the same when that product is made again (correlation `MEMORY`), 4 to 8 weeks later and in an order
that keeps changing. Only one past week determines the level of the week to come. It ended at least
1,008 steps before it and began at most 2,688, and only the flags say which week that was: a window of 2,688 steps
always holds it, one of 672 never does. A linear model cannot retrieve it, and no other input predicts it: levels
have no trend and no season, the same mean for all products, and are independent from product to product.

A recall by content of one among several, as in Graves et al. 2014, "Neural Turing Machines", section 4.3, and Arora et
al. 2024, "Zoology".
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from forecast.data.panel import Panel
from forecast.data.sets.synthetic import Series, around

PRODUCTS, WEEKS, WEEK = 6, 2000, 336
COLUMNS = ("output", *(f"{when}_{product + 1}" for when in ("now", "next") for product in range(PRODUCTS)))
SOONEST, LATEST = 4, 8
"""Weeks from a run of a product to its next."""
MEMORY, NOISE = 0.9, 0.15
_SEED = 19900101


@dataclass(frozen=True)
class Plan:
    """Of each week, and one after the table's last: what is made, at which level, and at which level the last time."""

    product: Int[np.ndarray, " weeks"]
    level: Float[np.ndarray, " weeks"]
    last: Float[np.ndarray, " weeks"]


def recall_table() -> Panel:
    """The generated set, the same at every call; values are rounded to three decimals."""
    dates = pd.date_range("1990-01-01", periods=WEEKS * WEEK, freq="30min")
    random = np.random.Generator(np.random.PCG64(_SEED))
    plan = _plan(random)
    output = np.repeat(plan.level[:-1], WEEK) + _day(dates) + NOISE * random.standard_normal(len(dates))
    flags = np.repeat(np.eye(PRODUCTS)[plan.product], WEEK, axis=0)
    return Panel.of_table(
        dates, np.column_stack([output, flags[:-WEEK], flags[WEEK:]]).round(3), COLUMNS, "30min"
    )


def lowest_possible_mse(origins: Int[np.ndarray, " windows"], pred_len: int) -> tuple[float, float]:
    """The least mean squared errors of windows that forecast from these rows on, up to a week ahead.

    First without, then with knowledge of the last run of the next product. Both know everything else.
    """
    table, plan = recall_table(), _plan(np.random.Generator(np.random.PCG64(_SEED)))
    level = table.values[:, 0] - _day(table.grid)
    rows, here = origins[:, None] + np.arange(pred_len), origins[:, None] // WEEK
    week = rows // WEEK
    forecasts = (np.where(week == here, plan.level[week], known * plan.last[week]) for known in (0, MEMORY))
    short, long = (float(np.mean((level[rows] - forecast) ** 2)) for forecast in forecasts)
    return short, long


def _day(dates: pd.DatetimeIndex) -> Series:
    """The part of the hour that is added to the level."""
    return -0.7 * around(dates.hour.to_numpy().astype(float), 3.0, 3.0)


def _plan(random: np.random.Generator) -> Plan:
    """Each week, at random, one of the products that have waited long enough; one that has waited `LATEST` at once."""
    waiting = list(zip(range(-LATEST, PRODUCTS - LATEST), random.permutation(PRODUCTS), strict=True))
    levels = random.standard_normal(PRODUCTS)
    weeks = []
    for week in range(WEEKS + 1):
        oldest, _ = waiting[0]  # week of the last run, product
        _, product = waiting.pop(0 if week - oldest == LATEST else random.integers(PRODUCTS - SOONEST + 1))
        waiting.append((week, product))
        last = levels[product]
        levels[product] = MEMORY * last + np.sqrt(1 - MEMORY**2) * random.standard_normal()
        weeks.append((product, levels[product], last))
    return Plan(*(np.array(column) for column in zip(*weeks, strict=True)))
