"""A generated plant that makes twelve products in turn: how much comes out next week was last seen months ago.

252,000 rows from 1990-01-01, hourly: `output`, in tonnes; `now_1` … `now_12`, 1 for the product being made; `next_1` …
`next_12`, 1 for the product of the same hour a week later, for the plan is known a week ahead. Nothing was measured.

What there is to learn: one product a week, Monday to Sunday; nights with less output; and a level of output that lasts
a week and is nearly the same when that product is made again (correlation `MEMORY`), 8 to 16 weeks later and in an
order that keeps changing. The level of the week to come is thus told by one week of the past alone, which ended at
least 1,176 steps before it and began at most 2,688, and only the flags say which week that was: a window of 2,688 steps
always holds it, one of 1,008 never does. No linear map can look it up, and nothing takes its place: levels have no
trend and no season, the same mean for all products, and are independent from product to product.

A recall by content of one among many, as in Graves et al. 2014, "Neural Turing Machines", section 4.3, and Arora et al.
2024, "Zoology", whose tasks these are in the shape of a series.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from forecast.data.module import ForecastData
from forecast.data.synthetic import Series, around
from forecast.data.table import Table

PRODUCTS, WEEKS, WEEK = 12, 1500, 168
COLUMNS = (
    "output",
    *(f"now_{number}" for number in range(1, PRODUCTS + 1)),
    *(f"next_{number}" for number in range(1, PRODUCTS + 1)),
)
SOONEST, LATEST = 8, 16
"""Weeks from a run of a product to its next."""
MEMORY, SPREAD, NOISE = 0.9, 4.0, 0.5
_SEED = 19900101


class RecallData(ForecastData):
    """The generated plant; needs no file and no network."""

    def read(self) -> Table:
        return recall_table()


@dataclass(frozen=True)
class Plant:
    """Week by week, one more than the table has: what is made, at which level, and at which level the last time."""

    product: Int[np.ndarray, " weeks"]
    level: Float[np.ndarray, " weeks"]
    last: Float[np.ndarray, " weeks"]


def recall_table() -> Table:
    """The generated set, the same at every call; values are rounded to three decimals."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    plant = _run(random)
    dates = pd.date_range("1990-01-01", periods=WEEKS * WEEK, freq="h")
    output = np.repeat(plant.level[:-1], WEEK) + usual(dates) + NOISE * random.standard_normal(len(dates))
    flags = np.repeat(np.eye(PRODUCTS)[plant.product], WEEK, axis=0)
    return Table(dates, np.column_stack([output, flags[:-WEEK], flags[WEEK:]]).round(3), COLUMNS, "h")


def usual(dates: pd.DatetimeIndex) -> Series:
    """Output at each hour, whatever is made."""
    return 20 - 3 * around(dates.hour.to_numpy().astype(float), 3.0, 3.0)


def plant() -> Plant:
    """What the table was made from."""
    return _run(np.random.Generator(np.random.PCG64(_SEED)))


def _run(random: np.random.Generator) -> Plant:
    """Each week one of the products that are not among the last seven, by lot, or that one that cannot wait."""
    waiting = [(int(product), -LATEST + place) for place, product in enumerate(random.permutation(PRODUCTS))]
    levels = SPREAD * random.standard_normal(PRODUCTS)
    made = []
    for week in range(WEEKS + 1):  # waiting: products and the weeks of their last runs, the oldest first
        is_due = week - waiting[0][1] == LATEST
        product, _ = waiting.pop(0 if is_due else int(random.integers(PRODUCTS - SOONEST + 1)))
        waiting.append((product, week))
        last = levels[product]
        levels[product] = MEMORY * last + SPREAD * np.sqrt(1 - MEMORY**2) * random.standard_normal()
        made.append((product, levels[product], last))
    product, level, last = zip(*made, strict=True)
    return Plant(np.array(product), np.array(level), np.array(last))


def floors(origins: Int[np.ndarray, " windows"], pred_len: int) -> tuple[float, float]:
    """Mean squared errors, in tonnes², of windows that forecast from these rows on, at most a week ahead.

    Of one who knows all but what the products to come did in their last runs, and of one who knows that too.
    """
    weeks = plant()
    table = recall_table()
    rest = table.values[:, 0] - usual(table.dates)
    rows = origins[:, None] + np.arange(pred_len)
    week, to_come = rows // WEEK, rows // WEEK > origins[:, None] // WEEK
    told = [np.where(to_come, seen * weeks.last[week], weeks.level[week]) for seen in (0.0, MEMORY)]
    short, long = (float(np.mean((rest[rows] - forecast) ** 2)) for forecast in told)
    return short, long
