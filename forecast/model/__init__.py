"""The forecasting models."""

from forecast.model.informer import Informer, InformerStack

__all__ = ["Informer", "InformerStack"]
