"""Files, memory, processes and signals. Importing this package imports no torch."""
