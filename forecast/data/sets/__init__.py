"""Synthetic and downloaded data sets."""
