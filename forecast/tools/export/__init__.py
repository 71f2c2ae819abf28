"""Export of a trained model as one file that runs without this package."""
