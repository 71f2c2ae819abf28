"""The body of each command; `forecast/<command>.py` starts it."""
