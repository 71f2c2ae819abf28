"""Tasks of fev-bench on local files: scores as that benchmark defines them, and its published rows."""
