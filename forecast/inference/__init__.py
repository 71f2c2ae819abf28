"""Trained models: predict, evaluate, backtest."""
