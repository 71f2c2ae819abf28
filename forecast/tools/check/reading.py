"""The reading of the data to examine, with options that the data themselves suggest."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from forecast.data import DataModule, Panel
from forecast.data.store.format import check_fits_memory
from forecast.system.errors import TextColumns
from forecast.tools.check.calendar_gaps import find_calendar_of_gaps
from forecast.tools.check.settings import Choices, Setting

MakeData = Callable[..., DataModule]
"""Creates the data module that the user chose, with other values of the options given by keyword."""


@dataclass(frozen=True)
class Reading:
    """The panel of a data module.

    Attributes:
        texts: columns of text without another role, which are read as past covariates.
        settings: the future covariates if names of columns say that they are forecasts, and `data.steps=rows` if gaps
            follow a calendar.
    """

    data: DataModule
    panel: Panel
    texts: Sequence[str]
    settings: list[Setting]


def read(make: MakeData, choices: Choices) -> Reading:
    """Read the data; again with text and forecasts as covariates, or with rows as steps, where the data suggest it.

    Raises:
        DataError, ConfigError: as training does; DataError also for a store that memory cannot hold.
    """
    reading = _read_with_forecasts(make, choices, _read_with_texts(make, choices))
    if (choices.steps, choices.freq) != ("dates", None):
        return reading
    calendar = find_calendar_of_gaps(reading.panel)
    if calendar is None:
        return reading
    why = f"the rows are {calendar.describe()}: dates between them are not missing"
    return _read_again(make, choices, reading, Setting("data.steps", "rows", why))


def _read_with_texts(make: MakeData, choices: Choices) -> Reading:
    """Read the data, and again where columns of text without another role would be targets."""
    data = make()
    try:
        return Reading(data, _read_panel(data), texts=(), settings=[])
    except TextColumns as error:
        if choices.columns is not None or data.options.target in error.names:
            raise
        data = make(past_covariates=[*choices.past_covariates, *error.names])
        return Reading(data, _read_panel(data), texts=error.names, settings=[])


def _read_with_forecasts(make: MakeData, choices: Choices, reading: Reading) -> Reading:
    """Read a table again where names of targets say that they are forecasts, which are known in advance."""
    targets = reading.panel.targets
    names = [name for name in targets if "forecast" in name.lower() and name != choices.target]
    is_chosen = choices.columns is not None or choices.future_covariates or choices.steps is None
    if not names or len(names) == len(targets) or is_chosen:
        return reading
    why = "their names say that they are forecasts: known for the steps to forecast"
    return _read_again(make, choices, reading, Setting("data.future_covariates", names, why))


def _read_again(make: MakeData, choices: Choices, reading: Reading, setting: Setting) -> Reading:
    """Read the data as in a reading, with one more setting."""
    settings = [*reading.settings, setting]
    chosen = {each.key.removeprefix("data."): each.value for each in settings}
    data = make(past_covariates=[*choices.past_covariates, *reading.texts], **chosen)
    with warnings.catch_warnings(action="ignore"):  # the first reading gave them
        panel = _read_panel(data)
    return replace(reading, data=data, panel=panel, settings=settings)


def _read_panel(data: DataModule) -> Panel:
    """The panel of `data` in memory. Raises DataError for a store that memory cannot hold."""
    data.prepare_data()
    panel = data.source.read()
    check_fits_memory(panel)
    future = None if panel.future is None else np.asarray(panel.future)
    return replace(panel, values=np.asarray(panel.values), future=future)


@contextmanager
def warnings_only_with_errors() -> Iterator[None]:
    """Leave out the warnings of the block, unless it raises an exception: training reads the data again and warns."""
    try:
        with warnings.catch_warnings(record=True, action="always") as caught:
            yield
    except Exception:
        for each in caught:
            warnings.warn(each.message, stacklevel=2)
        raise
