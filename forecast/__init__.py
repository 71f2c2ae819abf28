"""Long-sequence time-series forecasting: `fit` a model to a DataFrame or `load` one, then `predict` and `evaluate`."""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = ["Model", "__version__", "fit", "load"]

if TYPE_CHECKING:
    from forecast.api import Model, fit, load


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import the API on first access, so that commands answer --help without loading torch."""
    if name not in __all__:
        raise AttributeError(f"module 'forecast' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("forecast.api"), name)
