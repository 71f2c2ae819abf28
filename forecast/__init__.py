"""Long-sequence time-series forecasting: `fit` a model to a DataFrame or `load` one, then `predict` and `evaluate`."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["TrainedModel", "__version__", "fit", "load"]

if TYPE_CHECKING:
    from forecast.fitting import fit
    from forecast.trained import TrainedModel, load


def __getattr__(name: str) -> Any:
    """Import these when they are asked for: commands answer --help without loading torch."""
    if name not in ("TrainedModel", "fit", "load"):
        raise AttributeError(f"module 'forecast' has no attribute {name!r}")
    import importlib

    module = importlib.import_module("forecast.fitting" if name == "fit" else "forecast.trained")
    return getattr(module, name)
