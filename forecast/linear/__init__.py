"""Linear models in closed form: sums over windows, least squares, and the choice of settings."""
