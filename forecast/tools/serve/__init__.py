"""Forecasts over HTTP: a web application that hands requests to processes that forecast."""
