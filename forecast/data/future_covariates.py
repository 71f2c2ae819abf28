"""Future covariates as a model reads them: measured up to a forecast origin, known in advance after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from forecast.data.carried_rows import CarriedRows
from forecast.data.measured import last_measured
from forecast.data.missing import carry_forward
from forecast.data.panel import Panel
from forecast.data.rows import DiskRows, Rows, TensorRows
from forecast.data.scaler import Scaler
from forecast.data.stored_values import StoredValues
from forecast.system.errors import ConfigError, DataError

KnownSteps = int | Mapping[str, int]

ALL = 1 << 40
"""Number of known steps of a covariate that is known over any horizon."""


@dataclass(frozen=True)
class FutureCovariates:
    """Columns of the future covariates among the time features of a window; `feature_names` names them.

    A covariate with a limit in `known_steps` has a mask, which is 1 where its value is known and 0 elsewhere. After
    its last known step it repeats the value of that step. A missing value is read as the one before it.

    Attributes:
        past: columns of the rows before a forecast origin.
        ahead: columns of the rows after a forecast origin, as they were known in advance.
        known_steps: steps after the origin for which each column is known.
        is_mask: whether a column is a mask.
    """

    past: Rows
    ahead: Rows
    known_steps: Int64[Tensor, " columns"]
    is_mask: Bool[Tensor, " columns"]

    @classmethod
    def of(cls, panel: Panel, scaler: Scaler, known_steps: Sequence[int | None]) -> "FutureCovariates":
        """Scale the future covariates of a panel.

        Args:
            panel: with future covariates.
            scaler: of the future covariates.
            known_steps: steps for which each covariate is known after an origin; None: over the whole horizon.
        """
        assert panel.future is not None
        limits = [ALL if steps is None else steps for steps in known_steps]
        masked = [i for i, steps in enumerate(limits) if steps < ALL]
        past = _scaled_columns(panel, list(range(len(limits))), scaler, masked)
        ahead = _scaled_columns(panel, panel.ahead_index, scaler, masked) if panel.as_of else past
        return cls(
            past,
            ahead,
            torch.tensor([*limits, *(limits[i] for i in masked)]),
            torch.tensor([False] * len(limits) + [True] * len(masked)),
        )

    @property
    def n_columns(self) -> int:
        return self.past.n_columns

    @property
    def depends_on_origin(self) -> bool:
        """Whether what is read of a row depends on the forecast origin."""
        return self.ahead is not self.past or bool(self.is_mask.any())

    def past_windows(
        self, first: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        """Windows of `length` rows before a forecast origin, which begin at these rows."""
        return self.past.windows(first, length)

    def known_windows(
        self, origins: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        """Windows of `length` rows after these forecast origins, as they are known at the origins."""
        found = self.ahead.windows(origins, length)
        if not self.is_mask.any():
            return found
        last = origins[:, None] + self.known_steps.clamp(max=length) - 1
        repeated = self.ahead[last].diagonal(dim1=1, dim2=2).masked_fill(self.is_mask, 0.0)
        is_known = torch.arange(length, device=origins.device)[:, None] < self.known_steps
        return torch.where(is_known, found, repeated[:, None])

    def to(self, device: torch.device | str) -> "FutureCovariates":
        past = self.past.to(device)
        ahead = past if self.ahead is self.past else self.ahead.to(device)
        return FutureCovariates(past, ahead, self.known_steps.to(device), self.is_mask.to(device))


def _scaled_columns(panel: Panel, index: list[int], scaler: Scaler, masked: list[int]) -> Rows:
    """Scaled columns of the future covariates of a panel, then the masks of some of them."""
    assert panel.future is not None
    if isinstance(panel.future, StoredValues):
        return CarriedRows(DiskRows(panel.future.select(index), scaler, panel.starts), panel.starts, masked)
    scaled = scaler.transform_panel(panel.future[:, index], panel.starts, panel.stops)
    masks = (~scaled[:, masked].isnan()).float()
    return TensorRows(torch.cat([carry_forward(scaled, panel.starts, panel.stops), masks], dim=1))


def feature_names(covariates: Sequence[str], known_steps: Sequence[int | None]) -> list[str]:
    """Names of the columns of `FutureCovariates`: covariates, then masks. They follow the calendar features."""
    masked = [name for name, steps in zip(covariates, known_steps, strict=True) if steps is not None]
    return [*covariates, *(f"{name} known" for name in masked)]


def describe_known(
    covariates: Sequence[str], as_of: Mapping[str, str], known_steps: Sequence[int | None]
) -> list[str]:
    """Each future covariate, with the column and the number of steps that are known after a forecast origin."""
    described = []
    for name, steps in zip(covariates, known_steps, strict=True):
        limits = [as_of[name]] if name in as_of else []
        limits += [f"{steps} steps"] if steps is not None else []
        described.append(name + (f" (horizon: {', '.join(limits)})" if limits else ""))
    return described


def resolve_known_steps(known_steps: KnownSteps | None, panel: Panel) -> list[int | None]:
    """The steps of each future covariate by `data.known_steps`; None: known over the whole horizon.

    Raises:
        ConfigError: a name that is no future covariate, or no future covariate at all.
    """
    columns = [panel.indicators.get(name, name) for name in panel.future_covariates]
    if not isinstance(known_steps, Mapping):
        if known_steps is not None and not columns:
            raise ConfigError(
                f"data.known_steps={known_steps} limits data.future_covariates, and there are none"
            )
        return [known_steps] * len(columns)
    for name in known_steps:
        if name not in columns:
            there = ", ".join(list(dict.fromkeys(columns))[:20]) or "none"
            raise ConfigError(
                f"data.known_steps names {name}, which is no future covariate: there are {there}"
            )
    return [known_steps.get(name) for name in columns]


def check_known_steps(known_steps: KnownSteps | None) -> None:
    """Raise ConfigError unless `data.known_steps` is null or positive whole numbers."""
    for steps in known_steps.values() if isinstance(known_steps, Mapping) else [known_steps]:
        if steps is not None and (type(steps) is not int or steps < 1):
            raise ConfigError(
                f"data.known_steps={steps} must be a whole number of steps, at least 1; a covariate whose future is "
                "not known is one of data.past_covariates"
            )


def check_known_as_trained(
    name: str, panel: Panel, known_steps: list[int | None], state: dict[str, Any]
) -> None:
    """Raise DataError for other future covariates than the checkpoint's, or if they are known for other steps."""
    both = (
        describe_known(panel.future_covariates, panel.as_of, known_steps),
        describe_known(
            state["future_covariates"],
            state.get("as_of", {}),
            state.get("known_steps", [None] * len(state["future_covariates"])),
        ),
    )
    if both[0] != both[1]:
        mine, theirs = (", ".join(names) or "none" for names in both)
        raise DataError(
            f"{name}: future covariates {mine}, where the checkpoint was trained on {theirs}: choose the same"
        )


def carry_into(
    excerpt: Panel, panel: Panel, chosen: Int64[np.ndarray, " chosen"], first: Int64[np.ndarray, " chosen"]
) -> Panel:
    """An excerpt of a panel in which future covariates that its first rows lack have the value before, as in training.

    Args:
        excerpt: rows of the series `chosen` of `panel`, from the rows `first` on.
    """
    if panel.future is None:
        return excerpt
    sources = last_measured(panel.future, panel.starts[chosen], first + 1)
    values = np.diagonal(panel.future[sources.clip(min=0)], axis1=1, axis2=2)
    future = np.array(excerpt.future)
    future[excerpt.starts] = np.where(sources < 0, np.nan, values)
    return replace(excerpt, future=future)
