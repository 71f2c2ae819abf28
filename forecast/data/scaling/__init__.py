"""Scaling: transforms, bounds and the scalers of each series, fitted to training rows or restored from a checkpoint."""
