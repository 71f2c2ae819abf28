"""Commands beside training and forecasting."""
