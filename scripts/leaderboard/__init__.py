"""Tasks of fev-bench and GIFT-Eval on local files: scores as a benchmark defines them, and its published rows."""
