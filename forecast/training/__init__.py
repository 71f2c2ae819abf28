"""Training one model: the Lightning module, callbacks, warm start, refit."""
