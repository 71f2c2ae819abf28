"""The scaler of all series of a panel: taken from a checkpoint, or fitted to rows of each series."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64

from forecast.data.domain import Domain
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries
from forecast.data.scaler import Scaler
from forecast.data.scaling import fit_scaler
from forecast.data.stored_values import StoredValues


def find_places(panel: Panel, state: dict[str, Any] | None) -> Int64[np.ndarray, " series"]:
    """The number of each series among those with a scale in a checkpoint's `state`; −1 where there is none."""
    if state is None:
        return np.full(len(panel), -1)
    place = pd.Index(state["ids"]).get_indexer(panel.ids).astype(np.int64)
    place[(place >= 0) & ~np.array(state["has_scale"])[place]] = -1
    return place


def make_scaler(
    values: Float[np.ndarray, "rows columns"] | StoredValues,
    columns: tuple[str, ...],
    *,
    panel: Panel,
    domain: Domain,
    saved: Scaler | None,
    kind: str,
    by: str,
    first: PerSeries,
    last: PerSeries,
    place: Int64[np.ndarray, " series"],
) -> Scaler:
    """The scaler of all series of a panel for these columns.

    A series with a place in `saved` keeps that scale, and another is fitted to its rows first[s] … last[s] − 1. The
    identity scales indicators, and a series with neither a place nor rows.
    """
    zeros = torch.zeros(len(place), len(columns), dtype=torch.float64)
    scaler = Scaler(zeros, zeros + 1, domain)
    if by == "all" and saved is not None:
        place = np.zeros_like(place)  # all series had the same scale
    if saved is not None:
        old = np.flatnonzero(place >= 0)
        scaler.copy_scales(saved, series=torch.from_numpy(old), source=torch.from_numpy(place[old]))
    new = np.flatnonzero((place < 0) & (last > first))
    if not len(new):
        return scaler
    others = None if saved is None else saved.scale
    index = [i for i, name in enumerate(columns) if name not in panel.indicators]
    if len(index) < len(columns):
        values = values.select(index) if isinstance(values, StoredValues) else values[:, index]
        columns, others = tuple(columns[i] for i in index), None if others is None else others[:, index]
    fitted = fit_scaler(
        values, columns, first[new], last[new],
        kind=kind, by=by, others=others, domain=domain.select_columns(index),
    )  # fmt: skip
    if by == "all":
        new, source = np.arange(len(place)), np.zeros_like(place)
    else:
        source = np.arange(len(new))
    scaler.copy_scales(fitted, series=torch.from_numpy(new), source=torch.from_numpy(source), columns=index)
    return scaler
