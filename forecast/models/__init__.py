"""Forecasting models, and the base class of a model of your own."""

from forecast.models.base import ForecastModel
from forecast.models.informer import Informer, InformerStack
from forecast.models.patch_encoder import PatchEncoder
from forecast.models.residual_informer import ResidualInformer
from forecast.models.residual_mlp import ResidualMLP

__all__ = ["ForecastModel", "Informer", "InformerStack", "PatchEncoder", "ResidualInformer", "ResidualMLP"]
