"""Test scores of this project, LightGBM and neuralforecast on the same windows of data with future covariates."""
