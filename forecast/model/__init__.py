"""The forecasting models."""

from forecast.model.informer import Informer, InformerStack
from forecast.model.residual_informer import ResidualInformer

__all__ = ["Informer", "InformerStack", "ResidualInformer"]
