"""A trained model as one file that runs without this package (`python -m forecast.export`)."""
