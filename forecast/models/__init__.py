"""Forecasting models, and the base class of a model of your own."""

from forecast.models.base import ForecastModel
from forecast.models.informer import Informer, InformerStack, ResidualInformer
from forecast.models.patch_encoder import PatchEncoder, ResidualMLP

__all__ = ["ForecastModel", "Informer", "InformerStack", "PatchEncoder", "ResidualInformer", "ResidualMLP"]
