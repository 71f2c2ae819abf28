"""Long-sequence time-series forecasting with an Informer whose attention is chosen by configuration."""

__version__ = "0.1.0"
