"""The data that an exported file is compared with PyTorch on. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from forecast.data import DataModule
from forecast.inference.model_data import ModelData
from forecast.system.errors import ConfigError, DataError


def read_test_data(model: ModelData, given: Mapping[str, Any]) -> DataModule:
    """Read the data to compare on: those of the training run, or those that are given instead.

    Raises:
        ConfigError, DataError: there are no test rows.
    """
    try:
        data = model.read_data(given)
        model.refuse_absent(data, frozenset())
    except (DataError, OSError) as error:
        if given["path"] is not None:
            raise
        raise DataError(
            f"{error}: before it is written, the file is compared with PyTorch on test windows: "
            "name the data with data.path=FILE"
        ) from None
    if "test" not in data.rows:
        raise ConfigError(f"data.split={given['split']}: there are no test windows to compare on")
    return data
