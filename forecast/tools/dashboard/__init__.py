"""The Weights & Biases workspace and report that compare logged runs."""
